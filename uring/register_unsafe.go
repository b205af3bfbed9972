package uring

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// registerArg calls io_uring_register(2) with an argument of n elements at
// arg, which may be nil.
func registerArg[T any](fd int, op RegisterOp, arg *T, n int) (int, error) {
	res, _, errno := unix.Syscall6(unix.SYS_IO_URING_REGISTER, uintptr(fd),
		uintptr(op), uintptr(unsafe.Pointer(arg)), uintptr(n), 0, 0)
	if errno != 0 {
		return 0, &Error{Call: callRegister, What: op.String(), Errno: errno}
	}
	return int(res), nil
}

// iovecs describes buffers to the kernel.
func iovecs(bufs [][]byte) []unix.Iovec {
	v := make([]unix.Iovec, len(bufs))
	for i, b := range bufs {
		v[i].Base = unsafe.SliceData(b)
		v[i].SetLen(len(b))
	}
	return v
}

// sliceData is nil for an empty slice, where &s[0] would panic.
func sliceData[T any](s []T) *T { return unsafe.SliceData(s) }
