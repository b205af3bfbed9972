package uringtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sys/unix"

	"sluice/uring"
)

// Ring is a fake ring. Like a real one it belongs to one goroutine at a time.
type Ring struct {
	cfg    Config
	rng    *rand.Rand
	ledger uring.Ledger

	sq             []uring.SQE
	sqHead, sqTail int // count up; index modulo len(sq)

	cq       []uring.CQE
	overflow []uring.CQE
	posted   uint32 // completions ever posted, for timeouts that count

	seq     uint64
	pending []*request // chain heads: started, or waiting for drained ones
	files   []int32    // registered
	groups  map[uint16][]buffer
	closed  bool
}

var _ uring.Queue = (*Ring)(nil)

// New makes a ring.
func New(cfg Config) *Ring {
	if cfg.Entries == 0 {
		cfg.Entries = entriesDefault
	}
	if cfg.CQEntries == 0 {
		cfg.CQEntries = 2 * cfg.Entries
	}
	return &Ring{
		cfg:    cfg,
		rng:    rand.New(rand.NewPCG(cfg.Seed, 0)),
		sq:     make([]uring.SQE, cfg.Entries),
		groups: make(map[uint16][]buffer),
	}
}

// chance is true with probability p. It consumes a random number only if p
// is not 0, so that a fault switched on does not shift unrelated choices more
// than it must.
func (r *Ring) chance(p float64) bool { return p > 0 && r.rng.Float64() < p }

func (r *Ring) logf(format string, args ...any) {
	if r.cfg.Log != nil {
		r.cfg.Log(format, args...)
	}
}

// Space implements [uring.Queue].
func (r *Ring) Space() int { return len(r.sq) - (r.sqTail - r.sqHead) }

// NextSQE implements [uring.Queue].
func (r *Ring) NextSQE() *uring.SQE {
	if r.Space() == 0 {
		return nil
	}
	s := &r.sq[r.sqTail%len(r.sq)]
	*s = uring.SQE{}
	r.sqTail++
	r.ledger.Queue()
	return s
}

// Counts implements [uring.Queue].
func (r *Ring) Counts() uring.Counts { return r.ledger.Counts() }

// Overflowed reports whether completions wait for room.
func (r *Ring) Overflowed() bool { return len(r.overflow) > 0 }

// Submit implements [uring.Queue].
func (r *Ring) Submit() (int, error) {
	n := r.sqTail - r.sqHead
	if n == 0 {
		return 0, nil
	}
	for _, f := range []struct {
		p     float64
		errno unix.Errno
	}{{r.cfg.Faults.EnterEAGAIN, unix.EAGAIN}, {r.cfg.Faults.EnterEBUSY, unix.EBUSY}} {
		if r.chance(f.p) {
			r.logf("enter: %v", f.errno)
			return 0, &uring.Error{Call: "io_uring_enter", Errno: f.errno}
		}
	}
	if r.chance(r.cfg.Faults.PartialSubmit) {
		n = 1 + r.rng.IntN(n)
		r.logf("enter: takes %d of %d", n, r.sqTail-r.sqHead)
	}
	r.take(n)
	return n, nil
}

// take moves n entries from the queue to requests. A chain ends where the
// submission does, as in the kernel, and what is left of it must not run.
func (r *Ring) take(n int) {
	var chain, last *request
	linked := false
	for range n {
		s := &r.sq[r.sqHead%len(r.sq)]
		r.sqHead++
		linked = r.ledger.Take(s)
		req := r.newRequest(s)
		if chain == nil {
			chain = req
		} else {
			last.next = req
		}
		last = req
		if !linked {
			r.start(chain)
			chain = nil
		}
	}
	if chain != nil {
		r.start(chain)
	}
	if linked && r.sqHead != r.sqTail {
		uring.Sever(&r.sq[r.sqHead%len(r.sq)])
	}
}

// SubmitAndWait implements [uring.Queue].
func (r *Ring) SubmitAndWait(n int, timeout time.Duration) (int, error) {
	queued := r.sqTail - r.sqHead
	submitted, err := r.Submit()
	r.flush()
	if err != nil || submitted < queued || r.chance(r.cfg.Faults.EarlyWait) {
		r.steps(r.rng.IntN(stepsMax))
		return submitted, err
	}
	var deadline time.Time
	if timeout >= 0 {
		deadline = time.Now().Add(timeout)
	}
	for len(r.cq) < n && len(r.overflow) == 0 {
		switch r.step() {
		case nothingReady:
			if !r.sleep(deadline) {
				return submitted, nil
			}
		case delayed:
			if !deadline.IsZero() && time.Now().After(deadline) {
				return submitted, nil
			}
		}
	}
	r.steps(r.rng.IntN(stepsMax))
	return submitted, nil
}

func (r *Ring) steps(n int) {
	for range n {
		r.step()
	}
}

// post adds a completion, or lets it overflow.
func (r *Ring) post(c uring.CQE) {
	r.posted++
	r.logf("cqe: user data %#x res %d flags %#x", c.UserData, c.Res, c.Flags)
	if len(r.overflow) > 0 || len(r.cq) >= r.cfg.CQEntries {
		r.overflow = append(r.overflow, c)
		return
	}
	r.cq = append(r.cq, c)
}

// flush moves overflowed completions to where there is room.
func (r *Ring) flush() {
	n := min(len(r.overflow), r.cfg.CQEntries-len(r.cq))
	r.cq = append(r.cq, r.overflow[:n]...)
	r.overflow = append(r.overflow[:0], r.overflow[n:]...)
}

// Reap implements [uring.Queue].
func (r *Ring) Reap(dst []uring.CQE) int {
	n := copy(dst, r.cq)
	r.cq = append(r.cq[:0], r.cq[n:]...)
	for _, c := range dst[:n] {
		r.ledger.Complete(c)
	}
	return n
}

// Close implements [uring.Queue]. Everything pending is cancelled.
func (r *Ring) Close() error {
	if r.closed {
		return nil
	}
	r.closed = true
	r.ledger.Discard(r.sqTail - r.sqHead)
	r.sqHead = r.sqTail
	for len(r.pending) > 0 {
		r.finish(r.pending[0], -int32(unix.ECANCELED), 0)
	}
	var c [16]uring.CQE
	for {
		r.flush()
		if r.Reap(c[:]) == 0 {
			break
		}
	}
	if left := r.ledger.Counts().InKernel; left != 0 {
		return fmt.Errorf("uringtest: close: %d operations unaccounted for", left)
	}
	return nil
}

var errNoFiles = errors.New("uringtest: no such slot of registered files")

// RegisterFiles is like [uring.Ring.RegisterFiles].
func (r *Ring) RegisterFiles(fds []int32) error {
	r.files = append([]int32(nil), fds...)
	return nil
}

// RegisterFilesSparse is like [uring.Ring.RegisterFilesSparse].
func (r *Ring) RegisterFilesSparse(n int) error {
	r.files = make([]int32, n)
	for i := range r.files {
		r.files[i] = -1
	}
	return nil
}

// UpdateFiles is like [uring.Ring.UpdateFiles]. Unlike the kernel's, the ring
// does not keep a file open that is in a slot.
func (r *Ring) UpdateFiles(offset int, fds []int32) (int, error) {
	if offset < 0 || offset+len(fds) > len(r.files) {
		return 0, errNoFiles
	}
	for i, fd := range fds {
		if fd != uring.IORING_REGISTER_FILES_SKIP {
			r.files[offset+i] = fd
		}
	}
	return len(fds), nil
}

// UnregisterFiles is like [uring.Ring.UnregisterFiles].
func (r *Ring) UnregisterFiles() error {
	r.files = nil
	return nil
}
