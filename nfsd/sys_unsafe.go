package nfsd

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// System calls on the hot path, without the allocations of the wrappers in
// golang.org/x/sys/unix. Those on descriptors that are open do not sleep on a
// local file system and are made raw; slow file systems are left to waiting
// threads, where a raw call would keep a Go processor busy.

func errnoErr(e unix.Errno) error {
	if e == 0 {
		return nil
	}
	return e
}

func fstat(fd int, st *unix.Stat_t) error {
	_, _, e := unix.RawSyscall(unix.SYS_FSTAT, uintptr(fd), uintptr(unsafe.Pointer(st)), 0)
	return errnoErr(e)
}

func fstatMayBlock(fd int, st *unix.Stat_t) error {
	_, _, e := unix.Syscall(unix.SYS_FSTAT, uintptr(fd), uintptr(unsafe.Pointer(st)), 0)
	return errnoErr(e)
}

// resolveCached is RESOLVE_CACHED of linux/openat2.h (Linux 5.12): fail with
// EAGAIN rather than read a directory from disk.
const resolveCached = 0x20

// openat2 opens name, which must end in NUL.
func openat2(dir int, name *byte, how *unix.OpenHow) (int, error) {
	fd, _, e := unix.Syscall6(unix.SYS_OPENAT2, uintptr(dir), uintptr(unsafe.Pointer(name)),
		uintptr(unsafe.Pointer(how)), unix.SizeofOpenHow, 0, 0)
	if e != 0 {
		return -1, e
	}
	return int(fd), nil
}

// open opens path, which must end in NUL.
func open(path *byte, flags int) (int, error) {
	fd, _, e := unix.Syscall6(unix.SYS_OPENAT, ^uintptr(99), uintptr(unsafe.Pointer(path)), uintptr(flags), 0, 0, 0)
	if e != 0 {
		return -1, e
	}
	return int(fd), nil
}

// faccess asks the kernel whether the thread's file-system identity may access
// an open object (faccessat2(2), Linux 5.8).
func faccess(fd int, mode uint32) error {
	var empty byte
	_, _, e := unix.Syscall6(unix.SYS_FACCESSAT2, uintptr(fd), uintptr(unsafe.Pointer(&empty)), uintptr(mode),
		unix.AT_EMPTY_PATH|unix.AT_EACCESS, 0, 0)
	return errnoErr(e)
}

// kernelHandle is struct file_handle with room for the longest body.
type kernelHandle struct {
	Bytes uint32
	Type  int32
	Data  [128]byte
}

// nameToHandle gets the kernel's handle of an open object (name_to_handle_at(2)).
func nameToHandle(fd int, h *kernelHandle) error {
	var empty byte
	var mountID int32
	h.Bytes = uint32(len(h.Data))
	_, _, e := unix.Syscall6(unix.SYS_NAME_TO_HANDLE_AT, uintptr(fd), uintptr(unsafe.Pointer(&empty)),
		uintptr(unsafe.Pointer(h)), uintptr(unsafe.Pointer(&mountID)), unix.AT_EMPTY_PATH, 0)
	return errnoErr(e)
}

// nameToConnectable gets a handle for a name, which must end in NUL, that says
// which directory it is in.
func nameToConnectable(dir int, name *byte, h *kernelHandle) error {
	const atHandleConnectable = 0x2 // AT_HANDLE_CONNECTABLE, linux/fcntl.h
	var mountID int32
	h.Bytes = uint32(len(h.Data))
	_, _, e := unix.Syscall6(unix.SYS_NAME_TO_HANDLE_AT, uintptr(dir), uintptr(unsafe.Pointer(name)),
		uintptr(unsafe.Pointer(h)), uintptr(unsafe.Pointer(&mountID)), atHandleConnectable, 0)
	return errnoErr(e)
}

// openByHandle opens an object of the file system that mount is on. It needs
// CAP_DAC_READ_SEARCH (open_by_handle_at(2)).
func openByHandle(mount int, h *kernelHandle, flags int) (int, error) {
	fd, _, e := unix.Syscall(unix.SYS_OPEN_BY_HANDLE_AT, uintptr(mount), uintptr(unsafe.Pointer(h)), uintptr(flags))
	if e != 0 {
		return -1, e
	}
	return int(fd), nil
}

// setFSIdentity sets the calling thread's file-system ids and supplementary
// groups; Go's own wrappers would change every thread. Dropping fsuid 0 also
// drops the file capabilities from the effective set (capabilities(7)).
func setFSIdentity(uid, gid uint32, groups []uint32) error {
	_, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(unsafe.SliceData(groups))), 0)
	if e != 0 {
		return e
	}
	// These return the previous id and never an error; that they took effect is
	// checked once at start (canSwitch).
	unix.RawSyscall(unix.SYS_SETFSGID, uintptr(gid), 0, 0)
	unix.RawSyscall(unix.SYS_SETFSUID, uintptr(uid), 0, 0)
	return nil
}

// fsIdentity reads the calling thread's file-system ids: -1 is refused, and the
// current id returned (setfsuid(2)).
func fsIdentity() (uid, gid uint32) {
	u, _, _ := unix.RawSyscall(unix.SYS_SETFSUID, ^uintptr(0), 0, 0)
	g, _, _ := unix.RawSyscall(unix.SYS_SETFSGID, ^uintptr(0), 0, 0)
	return uint32(u), uint32(g)
}

// fsUUID asks the file system for its UUID (FS_IOC_GETFSUUID, Linux 6.9).
func fsUUID(fd int) (uuid [16]byte, ok bool) {
	var arg struct {
		Len  uint8
		UUID [16]byte
	}
	const fsIocGetFSUUID = 0x80111500 // _IOR(0x15, 0, struct fsuuid2)
	_, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), fsIocGetFSUUID, uintptr(unsafe.Pointer(&arg)))
	return arg.UUID, e == 0 && arg.Len == 16
}

// getdents reads directory entries.
func getdents(fd int, p []byte) (int, error) {
	n, _, e := unix.Syscall(unix.SYS_GETDENTS64, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	if e != 0 {
		return 0, e
	}
	return int(n), nil
}

// readlinkFD reads the text of an open symbolic link.
func readlinkFD(fd int, p []byte) (int, error) {
	var empty byte
	n, _, e := unix.Syscall6(unix.SYS_READLINKAT, uintptr(fd), uintptr(unsafe.Pointer(&empty)),
		uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), 0, 0)
	if e != 0 {
		return 0, e
	}
	return int(n), nil
}

// pollPriority looks for POLLPRI on a descriptor without waiting. One of -1 has no
// events.
func pollPriority(fd int32) bool {
	p := unix.PollFd{Fd: fd, Events: unix.POLLPRI}
	var none unix.Timespec
	n, _, e := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&p)), 1, uintptr(unsafe.Pointer(&none)), 0, 0, 0)
	return e == 0 && n > 0
}
