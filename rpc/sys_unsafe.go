package rpc

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// send and recv work on non-blocking sockets, so they return soon and are made
// as raw system calls: the Go scheduler need not know of them.

// send returns what the socket took of p.
func send(fd int, p []byte, flags int) (int, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))),
		uintptr(len(p)), uintptr(flags|unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// Send is send for payloads: it sends to a non-blocking socket; more says that
// other bytes follow at once.
func Send(fd int, p []byte, more bool) (int, error) {
	flags := 0
	if more {
		flags = unix.MSG_MORE
	}
	return send(fd, p, flags)
}

// recv returns 0 at the end of the stream.
func recv(fd int, p []byte) (int, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))),
		uintptr(len(p)), unix.MSG_DONTWAIT, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// setThreadName names the calling OS thread (at most 15 characters) for top -H
// and /proc/PID/task/*/comm.
func setThreadName(name string) {
	b := append([]byte(name), 0)
	// PR_SET_NAME fails only on a bad address.
	_ = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&b[0])), 0, 0, 0)
}
