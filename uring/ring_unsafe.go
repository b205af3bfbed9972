package uring

import (
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapping is the memory a ring shares with the kernel.
//
// Ordering: each queue has one writer per index. The kernel reads an SQE
// after it has read the tail past it, so the SQE's plain stores must be
// visible before the tail's; likewise a CQE is read after the tail that
// covers it, and its slot given back, by storing the head, after the copy
// (io_uring.7, and the barriers described in the kernel's io_uring.c). Every
// index is read and written with sync/atomic, whose operations are
// sequentially consistent: stronger than the acquire and release that are
// needed, and what the SQPOLL wake-up check needs.
//
// The race detector does not track memory outside the Go heap; it sees no
// race here and proves none absent. One thread owns the ring.
type mapping struct {
	rings []byte // both rings, IORING_FEAT_SINGLE_MMAP
	sqeMM []byte

	sqHead, sqTail, sqFlags    *uint32
	cqHead, cqTail, cqOverflow *uint32

	sqMask, sqEntries uint32
	cqMask, cqEntries uint32
	sqes              []io_uring_sqe
	cqes              []io_uring_cqe
}

// mmap maps the rings of fd and finds its words by the offsets in p.
func (m *mapping) mmap(fd int, p *io_uring_params) error {
	const prot, flags = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_SHARED | unix.MAP_POPULATE
	size := int(p.cq_off.cqes) + int(p.cq_entries)*int(unsafe.Sizeof(io_uring_cqe{}))
	if p.flags&IORING_SETUP_NO_SQARRAY == 0 {
		size = max(size, int(p.sq_off.array)+int(p.sq_entries)*4)
	}
	var err error
	if m.rings, err = unix.Mmap(fd, IORING_OFF_SQ_RING, size, prot, flags); err != nil {
		return mmapError("IORING_OFF_SQ_RING", err)
	}
	sqeSize := int(p.sq_entries) * int(unsafe.Sizeof(io_uring_sqe{}))
	if m.sqeMM, err = unix.Mmap(fd, IORING_OFF_SQES, sqeSize, prot, flags); err != nil {
		m.munmap()
		return mmapError("IORING_OFF_SQES", err)
	}
	m.locate(p)
	return nil
}

func (m *mapping) locate(p *io_uring_params) {
	word := func(off uint32) *uint32 { return (*uint32)(unsafe.Pointer(&m.rings[off])) }
	m.sqHead, m.sqTail, m.sqFlags = word(p.sq_off.head), word(p.sq_off.tail), word(p.sq_off.flags)
	m.cqHead, m.cqTail, m.cqOverflow = word(p.cq_off.head), word(p.cq_off.tail), word(p.cq_off.overflow)
	m.sqMask, m.sqEntries = *word(p.sq_off.ring_mask), p.sq_entries
	m.cqMask, m.cqEntries = *word(p.cq_off.ring_mask), p.cq_entries
	m.sqes = unsafe.Slice((*io_uring_sqe)(unsafe.Pointer(&m.sqeMM[0])), p.sq_entries)
	m.cqes = unsafe.Slice((*io_uring_cqe)(unsafe.Pointer(&m.rings[p.cq_off.cqes])), p.cq_entries)
	if p.flags&IORING_SETUP_NO_SQARRAY != 0 {
		return
	}
	// The indirection array lets entries be submitted out of order. They
	// never are here, so it is filled once with the identity.
	array := unsafe.Slice(word(p.sq_off.array), p.sq_entries)
	for i := range array {
		array[i] = uint32(i)
	}
}

func (m *mapping) munmap() {
	if m.rings != nil {
		unix.Munmap(m.rings)
	}
	if m.sqeMM != nil {
		unix.Munmap(m.sqeMM)
	}
	*m = mapping{}
}

func (m *mapping) loadSQHead() uint32     { return atomic.LoadUint32(m.sqHead) }
func (m *mapping) storeSQTail(v uint32)   { atomic.StoreUint32(m.sqTail, v) }
func (m *mapping) loadSQFlags() uint32    { return atomic.LoadUint32(m.sqFlags) }
func (m *mapping) loadCQTail() uint32     { return atomic.LoadUint32(m.cqTail) }
func (m *mapping) storeCQHead(v uint32)   { atomic.StoreUint32(m.cqHead, v) }
func (m *mapping) loadCQOverflow() uint32 { return atomic.LoadUint32(m.cqOverflow) }

// waitArg is the memory io_uring_enter(2) reads a timeout from. It is part of
// the Ring, hence on the heap, so that a wait allocates nothing.
type waitArg struct {
	arg io_uring_getevents_arg
	ts  unix.KernelTimespec
}

func setup(entries uint32, p *io_uring_params) (int, unix.Errno) {
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, uintptr(entries), uintptr(unsafe.Pointer(p)), 0)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), 0
}

// enter calls io_uring_enter(2). What the kernel took shows in the ring's
// head, so the call's own count is not needed.
//
// unix.Syscall6 and not RawSyscall6: submission does the work of operations
// that need not wait, a page-cache read of megabytes for one, and the
// scheduler must know.
func (r *Ring) enter(submit, wait, flags uint32, timeout time.Duration) unix.Errno {
	flags |= r.enterFlags
	if timeout == 0 {
		wait = 0
	}
	var argp unsafe.Pointer
	var size uintptr
	if wait > 0 && timeout > 0 {
		r.wait.ts = Timespec(timeout)
		r.wait.arg.ts = addrOf(&r.wait.ts)
		argp, size = unsafe.Pointer(&r.wait.arg), unsafe.Sizeof(r.wait.arg)
		flags |= IORING_ENTER_EXT_ARG
	}
	_, _, errno := unix.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(r.enterFD),
		uintptr(submit), uintptr(wait), uintptr(flags), uintptr(argp), size)
	return errno
}
