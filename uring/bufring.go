package uring

import (
	"fmt"
	"math/bits"

	"golang.org/x/sys/unix"
)

// BufRing is a group of equal buffers that the kernel takes from as data
// arrives (IORING_REGISTER_PBUF_RING, Linux 5.19), so that a thousand idle
// connections need no buffer each. Buffers are numbered from 0. It belongs to
// its ring's owner.
type BufRing struct {
	ring    *Ring
	bgid    uint16
	size    int
	mem     []byte // entries, then buffers
	bufs    []byte
	entries []io_uring_buf
	tail    uint16
	held    []bool // by buffer ID: user space has it
	nHeld   int
}

// NewBufRing makes group bgid of n buffers, a power of two up to 32768, of
// size bytes each, and gives them all to the kernel.
func (r *Ring) NewBufRing(bgid uint16, n, size int) (*BufRing, error) {
	if n < 1 || n > bufRingEntriesMax || bits.OnesCount(uint(n)) != 1 {
		return nil, fmt.Errorf("uring: NewBufRing: %d buffers are not a power of two from 1 to %d", n, bufRingEntriesMax)
	}
	if size < 1 || size > bufSizeMax {
		return nil, fmt.Errorf("uring: NewBufRing: buffers of %d bytes are not from 1 to %d", size, bufSizeMax)
	}
	// The ring must be page-aligned, so the buffers follow it on a page of
	// their own.
	page := unix.Getpagesize()
	head := (n*int(sizeOf(io_uring_buf{})) + page - 1) / page * page
	mem, err := unix.Mmap(-1, 0, head+n*size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, mmapError("buffer ring", err)
	}
	b := &BufRing{ring: r, bgid: bgid, size: size, mem: mem, bufs: mem[head:],
		entries: bufEntries(mem, n), held: make([]bool, n), nHeld: n}
	arg := io_uring_buf_reg{ring_addr: addrOfSlice(mem), ring_entries: uint32(n), bgid: bgid}
	if _, err := registerArg(r.fd, IORING_REGISTER_PBUF_RING, &arg, 1); err != nil {
		unix.Munmap(mem)
		return nil, err
	}
	for bid := range n {
		b.held[bid] = true
		b.Return(uint16(bid))
	}
	b.Publish()
	return b, nil
}

// Group returns the group's ID, for the Prep methods.
func (b *BufRing) Group() uint16 { return b.bgid }

// Held returns how many buffers user space has and has not returned.
func (b *BufRing) Held() int { return b.nHeld }

// Take returns the data that c, a completion of this group, brought, and the
// buffer's ID. It reports false if c brought none. The data is valid until the
// buffer is returned.
func (b *BufRing) Take(c CQE) (data []byte, bid uint16, ok bool) {
	bid, ok = c.Buffer()
	if !ok {
		return nil, 0, false
	}
	if int(bid) >= len(b.held) || b.held[bid] {
		panic(fmt.Sprintf("uring: buffer %d of group %d is not the kernel's to give", bid, b.bgid))
	}
	b.held[bid] = true
	b.nHeld++
	return b.buffer(bid)[:max(c.Res, 0)], bid, true
}

func (b *BufRing) buffer(bid uint16) []byte { return b.bufs[int(bid)*b.size:][:b.size] }

// Return queues buffer bid for the kernel. It sees it after Publish.
func (b *BufRing) Return(bid uint16) {
	if int(bid) >= len(b.held) || !b.held[bid] {
		panic(fmt.Sprintf("uring: buffer %d of group %d returned without being held", bid, b.bgid))
	}
	b.held[bid] = false
	b.nHeld--
	e := &b.entries[int(b.tail)&(len(b.entries)-1)]
	// Not the whole struct: resv of entry 0 is the ring's tail.
	e.addr, e.len, e.bid = addrOfSlice(b.buffer(bid)), uint32(b.size), bid
	b.tail++
}

// Publish gives the kernel the buffers returned since the last call.
func (b *BufRing) Publish() { storeBufTail(b.entries, b.tail) }

// Close unregisters the group and frees its memory. No operation may use the
// group any more.
func (b *BufRing) Close() error {
	if b.mem == nil {
		return nil
	}
	arg := io_uring_buf_reg{bgid: b.bgid}
	if _, err := registerArg(b.ring.fd, IORING_UNREGISTER_PBUF_RING, &arg, 1); err != nil {
		return err
	}
	mem := b.mem
	b.mem, b.bufs, b.entries = nil, nil, nil
	return unix.Munmap(mem)
}
