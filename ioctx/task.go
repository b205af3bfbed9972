package ioctx

import (
	"os"

	"golang.org/x/sys/unix"
)

// From linux/ioprio.h and ioprio_set(2).
const (
	ioprioWhoProcess = 1
	ioprioClassBE    = 2
	ioprioClassShift = 13
	ioprioNormal     = 4
)

// setIOPriority gives the calling thread the priority it has anyway, best effort
// 4, and with that a kernel io_context.
func setIOPriority() error {
	_, _, errno := unix.RawSyscall(unix.SYS_IOPRIO_SET, ioprioWhoProcess, 0, ioprioClassBE<<ioprioClassShift|ioprioNormal)
	if errno != 0 {
		return os.NewSyscallError("ioprio_set", errno)
	}
	return nil
}

// kcmpIO is KCMP_IO of linux/kcmp.h.
const kcmpIO = 5

// sameIOContext says whether two tasks of this process have the same kernel
// io_context, none being equal to none (kcmp(2), needs CONFIG_KCMP).
func sameIOContext(a, b int) (bool, error) {
	r, _, errno := unix.RawSyscall6(unix.SYS_KCMP, uintptr(a), uintptr(b), kcmpIO, 0, 0, 0)
	if errno != 0 {
		return false, os.NewSyscallError("kcmp", errno)
	}
	return r == 0, nil
}
