package uring

import "errors"

// Op is one operation for a [Loop]. Allocate it once and reuse it: the loop
// allocates nothing per operation. From Submit until its last completion it is
// the loop's, and nobody else may touch it.
type Op struct {
	// SQE says what to do. The loop does not change it: it replaces the
	// UserData on the way to the kernel, and restores it in completions.
	SQE SQE
	// Done is called on the loop's thread for every completion; if it is not
	// CQE.More, the Op is the caller's again and may be submitted anew from
	// within Done. It must not block: all other completions wait for it.
	Done func(op *Op, c CQE)
	// Keep holds what SQE points to. The loop never looks at it, but keeps
	// the Op, and so all of this, reachable while the kernel may use it.
	Keep any

	next      *Op    // in the inbox or the backlog
	chain     int    // operations in the link chain this one heads
	link      uint8  // IOSQE_IO_LINK, or 0 at a chain's end
	target    *Op    // what to cancel
	submitted bool   // the loop's, from Submit on
	id        uint64 // user data, while live
	live      bool   // in the kernel; the loop's thread only
}

// Errors of [Loop.Submit] and the like.
var (
	// ErrLoopFull means that QueueMax operations are waiting. Do something
	// else first, or fail the request.
	ErrLoopFull = errors.New("uring: the loop's queue is full")
	// ErrLoopClosed means that the loop is stopping or has stopped.
	ErrLoopClosed = errors.New("uring: the loop is closed")

	errSkip      = errors.New("uring: a Loop counts completions: IOSQE_CQE_SKIP_SUCCESS is not for its operations")
	errLink      = errors.New("uring: only SubmitChain links operations: a link flag would reach a stranger's")
	errChainLong = errors.New("uring: the chain is longer than the submission queue, InFlightMax or QueueMax")
)

// checkFlags refuses flags that would tie op to operations of others.
func (op *Op) checkFlags(last bool) error {
	switch {
	case op.SQE.Flags&IOSQE_CQE_SKIP_SUCCESS != 0:
		return errSkip
	case last && op.SQE.Flags&(IOSQE_IO_LINK|IOSQE_IO_HARDLINK) != 0:
		return errLink
	}
	return nil
}

// opList is a queue of operations, linked through next.
type opList struct{ head, tail *Op }

func (q *opList) empty() bool { return q.head == nil }

func (q *opList) push(op *Op) {
	op.next = nil
	if q.head == nil {
		q.head = op
	} else {
		q.tail.next = op
	}
	q.tail = op
}

func (q *opList) pop() *Op {
	op := q.head
	q.head, op.next = op.next, nil
	return op
}

// append moves all of other to the end of q.
func (q *opList) append(other opList) {
	switch {
	case other.head == nil:
	case q.head == nil:
		*q = other
	default:
		q.tail.next, q.tail = other.head, other.tail
	}
}
