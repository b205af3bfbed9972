package numa

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Bind has the whole pages of b, up to its capacity, on the placement's node
// (mbind(2)). They lose what is in them: pages that are there already go, and new
// ones come when they are used. (Moving them does not do. Those of threads on
// different nodes may be parts of one huge page, which moves as a whole.) It is
// for memory that lives as long as the process: the policy stays with the addresses.
func (p Placement) Bind(b []byte) error {
	page := uintptr(os.Getpagesize())
	start := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	first, end := (start+page-1)&^(page-1), (start+uintptr(cap(b)))&^(page-1)
	if p.Anywhere() || first >= end {
		return nil
	}
	mode, nodes := p.policy()
	_, _, errno := unix.Syscall6(unix.SYS_MBIND, first, end-first, uintptr(mode),
		uintptr(unsafe.Pointer(&nodes)), 8*unsafe.Sizeof(nodes), 0)
	if errno != 0 {
		return os.NewSyscallError("mbind", errno)
	}
	whole := b[:cap(b)][first-start : end-start]
	return os.NewSyscallError("madvise", unix.Madvise(whole, unix.MADV_DONTNEED))
}
