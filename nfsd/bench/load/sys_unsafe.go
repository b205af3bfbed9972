package load

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// The calls below are raw: on a non-blocking socket none of them waits, so Go's
// scheduler need not know of them.

// discard removes up to n bytes from a TCP socket's queue without copying them
// (MSG_TRUNC, tcp(7), since Linux 2.4). scratch is never written to, but the
// kernel checks its address; it must have n bytes.
func discard(fd int, scratch []byte, n int) (int, error) {
	return raw(unix.SYS_RECVFROM, fd, scratch[:n], unix.MSG_TRUNC|unix.MSG_DONTWAIT)
}

// receive is recv(2). b must not be empty.
func receive(fd int, b []byte) (int, error) { return raw(unix.SYS_RECVFROM, fd, b, unix.MSG_DONTWAIT) }

// send is send(2). b must not be empty.
func send(fd int, b []byte) (int, error) {
	return raw(unix.SYS_SENDTO, fd, b, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
}

func raw(nr uintptr, fd int, b []byte, flags uintptr) (int, error) {
	n, _, errno := unix.RawSyscall6(nr, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), flags, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
