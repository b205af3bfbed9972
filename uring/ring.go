package uring

import (
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Queue is a submission queue and a completion queue: what code that submits
// operations needs of a ring. [*Ring] is the kernel's. Package uringtest has a
// fake with seeded faults.
//
// All methods are for the one thread that owns the queue.
type Queue interface {
	// NextSQE returns a zeroed entry, which is a NOP until something else is
	// prepared in it, or nil when the submission queue is full.
	NextSQE() *SQE
	// Space returns how many entries NextSQE can hand out before a Submit.
	Space() int
	// Submit gives the queued entries to the kernel and returns how many it
	// took. What it did not take stays queued.
	Submit() (int, error)
	// SubmitAndWait submits, lets the kernel post what has completed, and
	// waits for n completions to be ready. The wait may end early: after
	// timeout (negative: never), by a signal, or when the kernel took fewer
	// entries than were queued. None of these is an error; Reap tells what
	// there is.
	SubmitAndWait(n int, timeout time.Duration) (int, error)
	// Reap moves completions to dst and returns how many. It does not enter
	// the kernel.
	Reap(dst []CQE) int
	// Counts says where the operations are.
	Counts() Counts
	// Close cancels what is in the kernel, waits for it and frees the queue.
	Close() error
}

// Ring is an io_uring. It belongs to the OS thread that [New] ran on: io-wq
// workers, their io_context and, with IORING_SETUP_SINGLE_ISSUER, the right to
// submit are that thread's. New locks the goroutine to it until [Ring.Close].
//
// Memory named by an operation must stay reachable, and its file descriptor
// open, until the operation's last completion. The Prep methods move what they
// are given to the heap, so a growing stack does not move it under the kernel;
// keeping a reference is up to the caller. [Loop] keeps one.
type Ring struct {
	fd         int
	enterFD    int    // fd, or its index with IORING_ENTER_REGISTERED_RING
	enterFlags uint32 // IORING_ENTER_REGISTERED_RING or 0
	flags      uint32 // IORING_SETUP_* in force
	features   uint32 // IORING_FEAT_*
	m          mapping
	wait       waitArg

	sqHead uint32 // entries before this have been taken by the kernel
	sqTail uint32 // entries before this have been handed out
	sqSeen uint32 // entries before this have been published (SQPOLL)
	cqHead uint32
	ledger Ledger

	buffers [][]byte // registered: the kernel has them pinned
}

var _ Queue = (*Ring)(nil)

// New makes a ring and locks the calling goroutine to its OS thread, the
// ring's owner, until Close. A failure is an [*Error] that says what to look
// at, or a [*NotSupportedError].
func New(cfg Config) (*Ring, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	runtime.LockOSThread()
	r, err := newRing(cfg)
	if err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	noteRing()
	return r, nil
}

func newRing(cfg Config) (*Ring, error) {
	fd, p, err := cfg.setup(setup)
	if err != nil {
		return nil, err
	}
	r := &Ring{fd: fd, enterFD: fd, flags: p.flags, features: p.features}
	if err := requireFeatures(p.features); err != nil {
		unix.Close(fd)
		return nil, err
	}
	if err := r.m.mmap(fd, p); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return r, nil
}

// FD returns the ring's descriptor: for IORING_OP_MSG_RING and
// IORING_SETUP_ATTACH_WQ, and pollable.
func (r *Ring) FD() int { return r.fd }

// Flags returns the IORING_SETUP_* flags in force, after optional ones were
// dropped.
func (r *Ring) Flags() uint32 { return r.flags }

// Features returns the kernel's IORING_FEAT_* bits.
func (r *Ring) Features() uint32 { return r.features }

// Entries returns the sizes of the submission and the completion queue.
func (r *Ring) Entries() (sq, cq int) { return int(r.m.sqEntries), int(r.m.cqEntries) }

// Counts says where the ring's operations are.
func (r *Ring) Counts() Counts { return r.ledger.Counts() }

// Lost returns how many completions the kernel dropped for want of memory.
// With IORING_FEAT_NODROP, which New requires, an overflowing queue alone
// loses none.
func (r *Ring) Lost() uint32 { return r.m.loadCQOverflow() }

// Overflowed reports whether completions wait in the kernel for room in the
// completion queue. Reap, and SubmitAndWait will move them in.
func (r *Ring) Overflowed() bool { return r.m.loadSQFlags()&IORING_SQ_CQ_OVERFLOW != 0 }

// Ready returns how many completions Reap can take.
func (r *Ring) Ready() int { return int(r.m.loadCQTail() - r.cqHead) }

// Space returns how many entries NextSQE can hand out.
func (r *Ring) Space() int {
	if r.sqpoll() {
		r.sqHead = r.m.loadSQHead()
	}
	return int(r.m.sqEntries - (r.sqTail - r.sqHead))
}

// NextSQE returns a zeroed entry, or nil when the submission queue is full.
func (r *Ring) NextSQE() *SQE {
	if r.Space() == 0 {
		return nil
	}
	s := &r.m.sqes[r.sqTail&r.m.sqMask]
	*s = SQE{}
	r.sqTail++
	r.ledger.Queue()
	return s
}

// Submit gives the queued entries to the kernel and returns how many it took.
// With IORING_SETUP_DEFER_TASKRUN what does not complete at once completes
// only in SubmitAndWait.
func (r *Ring) Submit() (int, error) {
	if r.sqpoll() {
		return r.submitSQPoll(0, 0, 0)
	}
	if r.sqTail == r.sqHead {
		return 0, nil
	}
	return r.submit(0, 0, 0)
}

// SubmitAndWait submits and waits for n completions; see [Queue].
func (r *Ring) SubmitAndWait(n int, timeout time.Duration) (int, error) {
	wait := uint32(max(n, 0))
	if r.sqpoll() {
		return r.submitSQPoll(wait, IORING_ENTER_GETEVENTS, timeout)
	}
	if r.sqTail == r.sqHead && r.Ready() >= n && !r.kernelHasEvents() {
		return 0, nil
	}
	return r.submit(wait, IORING_ENTER_GETEVENTS, timeout)
}

// kernelHasEvents reports whether entering the kernel could make completions
// appear that are not in the queue yet.
func (r *Ring) kernelHasEvents() bool {
	if r.flags&IORING_SETUP_TASKRUN_FLAG == 0 && r.flags&IORING_SETUP_DEFER_TASKRUN != 0 {
		return true // the kernel does not tell
	}
	return r.m.loadSQFlags()&(IORING_SQ_CQ_OVERFLOW|IORING_SQ_TASKRUN) != 0
}

func (r *Ring) submit(wait, flags uint32, timeout time.Duration) (int, error) {
	r.m.storeSQTail(r.sqTail)
	errno := r.enter(r.sqTail-r.sqHead, wait, flags, timeout)
	return r.take(), enterError(errno)
}

// take books the entries that the kernel has taken since the last call. The
// ring's own head is the truth: io_uring_enter(2) reports a count or an error,
// never both.
func (r *Ring) take() int {
	head := r.m.loadSQHead()
	n := head - r.sqHead
	linked := false
	for ; r.sqHead != head; r.sqHead++ {
		linked = r.ledger.Take(&r.m.sqes[r.sqHead&r.m.sqMask])
	}
	if linked && r.sqHead != r.sqTail {
		Sever(&r.m.sqes[r.sqHead&r.m.sqMask])
	}
	return int(n)
}

func (r *Ring) sqpoll() bool { return r.flags&IORING_SETUP_SQPOLL != 0 }

// submitSQPoll publishes the queued entries for the polling thread. They are
// booked as taken at once: the thread may complete one before it moves the
// head past it.
func (r *Ring) submitSQPoll(wait, flags uint32, timeout time.Duration) (int, error) {
	n := r.sqTail - r.sqSeen
	for ; r.sqSeen != r.sqTail; r.sqSeen++ {
		r.ledger.Take(&r.m.sqes[r.sqSeen&r.m.sqMask])
	}
	r.m.storeSQTail(r.sqTail)
	// The store above and the load below must not change places, or the
	// thread falls asleep on an entry it has not seen. sync/atomic operations
	// are sequentially consistent, so they do not.
	if r.m.loadSQFlags()&IORING_SQ_NEED_WAKEUP != 0 {
		flags |= IORING_ENTER_SQ_WAKEUP
	}
	if r.Space() == 0 {
		flags |= IORING_ENTER_SQ_WAIT
	}
	if flags&^IORING_ENTER_GETEVENTS == 0 && r.Ready() >= int(wait) && !r.Overflowed() {
		return int(n), nil
	}
	return int(n), enterError(r.enter(n, wait, flags, timeout))
}

// enterError drops the errnos that only say a wait ended early.
func enterError(errno unix.Errno) error {
	if errno == 0 || errno == unix.ETIME || errno == unix.EINTR {
		return nil
	}
	return &Error{Call: callEnter, Errno: errno}
}

// Reap moves completions to dst and returns how many. It does not enter the
// kernel.
func (r *Ring) Reap(dst []CQE) int {
	n := min(r.Ready(), len(dst))
	for i := range dst[:n] {
		c := r.m.cqes[(r.cqHead+uint32(i))&r.m.cqMask]
		dst[i] = c
		r.ledger.Complete(c)
	}
	r.cqHead += uint32(n)
	r.m.storeCQHead(r.cqHead)
	return n
}

// Close drops what is queued, cancels what is in the kernel and waits for it,
// so that memory it was given is the caller's again. An error means that
// operations were still running after some seconds; their memory must then be
// left alone for good. Operations marked [Uncounted] are not waited for.
//
// Close unlocks the goroutine from its thread. The thread keeps its io-wq:
// idle workers for some seconds, worker limits and CPU affinity until it ends.
// Lock the goroutine once more before New, and let it end without unlocking,
// to have the thread end too; a [Loop] does.
func (r *Ring) Close() error {
	if r.fd < 0 {
		return nil
	}
	defer runtime.UnlockOSThread()
	err := r.drain()
	r.m.munmap()
	if r.enterFlags&IORING_ENTER_REGISTERED_RING != 0 {
		r.UnregisterRingFD()
	}
	if closeErr := unix.Close(r.fd); err == nil && closeErr != nil {
		err = fmt.Errorf("uring: close: %w", closeErr)
	}
	r.fd, r.enterFD, r.buffers = -1, -1, nil
	return err
}

func (r *Ring) drain() error {
	if !r.sqpoll() {
		r.ledger.Discard(int(r.sqTail - r.sqHead))
		r.sqTail = r.sqHead
	}
	cqes := make([]CQE, reapBatch)
	for deadline := time.Now().Add(closeWaitMax); r.Counts().InKernel > 0; {
		left := r.Counts().InKernel
		if time.Now().After(deadline) {
			return fmt.Errorf("uring: close: %d operations are still in the kernel after %v", left, closeWaitMax)
		}
		if s := r.NextSQE(); s != nil {
			s.PrepCancelAny()
			s.UserData = Uncounted
		}
		// One more than can come while operations hang: their number and the
		// cancellation's own.
		if _, err := r.SubmitAndWait(left+1, cancelPause); err != nil && r.Ready() == 0 {
			return fmt.Errorf("uring: close: %d operations are still in the kernel: %w", left, err)
		}
		for r.Reap(cqes) > 0 {
		}
	}
	return nil
}
