package uring

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"
)

// bufEntries views the memory of a buffer ring as its entries.
func bufEntries(mem []byte, n int) []io_uring_buf {
	return unsafe.Slice((*io_uring_buf)(unsafe.Pointer(&mem[0])), n)
}

// storeBufTail publishes the entries before tail. The kernel loads the tail
// with acquire semantics; it is the 16-bit resv of entry 0. Go has no 16-bit
// atomics, so the store covers bid of the same entry too, with the value it
// has: only user space writes either.
func storeBufTail(entries []io_uring_buf, tail uint16) {
	e := &entries[0]
	var word [4]byte
	binary.NativeEndian.PutUint16(word[:], e.bid)
	binary.NativeEndian.PutUint16(word[2:], tail)
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&e.bid)), binary.NativeEndian.Uint32(word[:]))
}
