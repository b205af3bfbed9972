package ioctx

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// splice moves n bytes without copying them; off nil for pipes and sockets.
func splice(in int, off *int64, out, n, flags int) (int, error) {
	m, _, errno := unix.Syscall6(unix.SYS_SPLICE, uintptr(in), uintptr(unsafe.Pointer(off)), uintptr(out), 0,
		uintptr(n), uintptr(flags))
	if errno != 0 {
		return 0, errno
	}
	return int(m), nil
}

// spliceOut moves n bytes of a pipe to a non-blocking socket. It does not sleep,
// so the Go scheduler need not know of it.
func spliceOut(pipe, sock, n, flags int) (int, error) {
	m, _, errno := unix.RawSyscall6(unix.SYS_SPLICE, uintptr(pipe), 0, uintptr(sock), 0, uintptr(n), uintptr(flags))
	if errno != 0 {
		return 0, errno
	}
	return int(m), nil
}

// cachestatRange and cachestatResult are struct cachestat_range and struct
// cachestat of linux/mman.h.
type cachestatRange struct{ Off, Len uint64 }

type cachestatResult struct {
	NrCache, NrDirty, NrWriteback, NrEvicted, NrRecentlyEvicted uint64
}

// sysCachestat is the number of cachestat(2), the same on every architecture
// that got its number after the numbers were unified (include/uapi/asm-generic/unistd.h).
const sysCachestat = 451

// cachestat counts the pages of a range that the page cache holds. It does not
// sleep.
func cachestat(fd int, off int64, n int) (pages uint64, err error) {
	r := cachestatRange{uint64(off), uint64(n)}
	var res cachestatResult
	_, _, errno := unix.RawSyscall6(sysCachestat, uintptr(fd), uintptr(unsafe.Pointer(&r)),
		uintptr(unsafe.Pointer(&res)), 0, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return res.NrCache, nil
}

// preadv2 reads into one buffer with RWF_ flags. With RWF_NOWAIT it does not
// sleep.
func preadv2(fd int, p []byte, off int64, flags int) (int, error) {
	iov := unix.Iovec{Base: unsafe.SliceData(p), Len: uint64(len(p))}
	// The kernel shifts the high half out of a 64-bit offset (pos_from_hilo in
	// fs/read_write.c), so this is right for 32 bits too.
	lo, hi := uintptr(off), uintptr(uint64(off)>>32)
	var n uintptr
	var errno unix.Errno
	if flags&unix.RWF_NOWAIT != 0 {
		n, _, errno = unix.RawSyscall6(unix.SYS_PREADV2, uintptr(fd), uintptr(unsafe.Pointer(&iov)), 1, lo, hi, uintptr(flags))
	} else {
		n, _, errno = unix.Syscall6(unix.SYS_PREADV2, uintptr(fd), uintptr(unsafe.Pointer(&iov)), 1, lo, hi, uintptr(flags))
	}
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// setThreadName names the calling thread, which must be locked, as top and
// /proc/PID/task/TID/comm show it: 15 bytes (prctl(2), PR_SET_NAME).
func setThreadName(name string) {
	b := append([]byte(name), 0)
	// PR_SET_NAME fails only on a bad address.
	_ = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&b[0])), 0, 0, 0)
}
