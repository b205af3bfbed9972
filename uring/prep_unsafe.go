package uring

import "unsafe"

// The kernel gets addresses as integers, which neither keep memory alive nor
// follow it when a goroutine's stack moves. escape forces what is pointed at
// to the heap, where it does not move; the caller keeps it alive.

// escapeSink.on is never set. The compiler cannot know, so the pointer escapes.
var escapeSink struct {
	on bool
	p  unsafe.Pointer
}

func escape(p unsafe.Pointer) uint64 {
	if escapeSink.on {
		escapeSink.p = p
	}
	return uint64(uintptr(p))
}

// addrOf returns the address of *p.
func addrOf[T any](p *T) uint64 { return escape(unsafe.Pointer(p)) }

// addrOfSlice returns the address of s[0], or 0 for an empty slice.
func addrOfSlice[T any](s []T) uint64 { return escape(unsafe.Pointer(unsafe.SliceData(s))) }

func sizeOf[T any](T) uint32 {
	var v T
	return uint32(unsafe.Sizeof(v))
}
