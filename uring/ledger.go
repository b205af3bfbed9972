package uring

// Uncounted, set in the user data of an operation, keeps it out of the
// [Ledger]. It marks the completions whose number nobody can know:
//
//   - messages that IORING_OP_MSG_RING posts from elsewhere: this ring never
//     submitted an operation for them;
//   - operations with IOSQE_CQE_SKIP_SUCCESS, which post only when they fail;
//   - whatever follows such an operation in its link chain. When an operation
//     that skips its CQE fails, the kernel cancels the rest of the chain
//     without a word (io_uring_enter(2), IOSQE_CQE_SKIP_SUCCESS).
//
// Whoever submits them keeps count of them.
const Uncounted = 1 << 63

// Counts says where a ring's operations are.
type Counts struct {
	Queued   int // handed out by NextSQE and not yet taken by the kernel
	InKernel int // taken by the kernel, last completion not yet reaped
}

// Ledger counts the operations of a ring: queued and in the kernel, apart. A
// buffer that a queued operation names can still be taken back; one that is in
// the kernel cannot. [Ring] keeps one; it is exported for other
// implementations of [Queue].
//
// A Ledger panics when the books cannot be right: that is a bug in the
// caller, and going on would free memory the kernel writes to.
type Ledger struct {
	queued   int
	inKernel int
	silent   bool // the chain being taken has an operation that skips its CQE
}

// Queue records an SQE handed out.
func (l *Ledger) Queue() { l.queued++ }

// Discard records n queued SQEs dropped before the kernel took them.
func (l *Ledger) Discard(n int) {
	if n > l.queued {
		panic("uring: more operations discarded than queued")
	}
	l.queued -= n
}

// Take records that the kernel took s from the queue. It reports whether s
// links to the SQE after it.
func (l *Ledger) Take(s *SQE) (linked bool) {
	if l.queued == 0 {
		panic("uring: the kernel took an operation that was not queued")
	}
	l.queued--
	l.silent = l.silent || s.Flags&IOSQE_CQE_SKIP_SUCCESS != 0
	switch {
	case s.UserData&Uncounted != 0:
	case l.silent:
		panic("uring: " + s.Opcode.String() + " may complete in silence (IOSQE_CQE_SKIP_SUCCESS in its chain), so its user data needs uring.Uncounted")
	default:
		l.inKernel++
	}
	linked = s.Flags&(IOSQE_IO_LINK|IOSQE_IO_HARDLINK) != 0
	if !linked {
		l.silent = false
	}
	return linked
}

// Complete records a completion reaped. Only the last completion of an
// operation ends it: multishot operations and zero-copy sends set
// IORING_CQE_F_MORE on all before.
func (l *Ledger) Complete(c CQE) {
	if c.UserData&Uncounted != 0 || c.More() {
		return
	}
	if l.inKernel == 0 {
		panic("uring: a completion without an operation; user data sent by MSG_RING needs uring.Uncounted")
	}
	l.inKernel--
}

// Counts returns the two counts.
func (l *Ledger) Counts() Counts { return Counts{Queued: l.queued, InKernel: l.inKernel} }

// Sever turns s into an operation that fails with -EINVAL, and with it the
// link chain it belongs to.
//
// The kernel ends a chain where a submission ends. If io_uring_enter(2) stops
// in the middle of one, because it ran out of memory, the rest would start as
// a new chain on the next call, although what it depends on has not happened:
// a reply header without its payload. Ring severs such a rest.
func Sever(s *SQE) { s.Opcode = opSevered }
