package uring

import "sync"

// inbox is the bounded queue by which any goroutine hands operations to a
// loop's thread. A mutex rather than a lock-free queue: chains go in whole,
// the loop takes everything in one step, and the question "does the loop
// sleep?" is answered in the same critical section, so no wake-up is lost and
// none is sent to a loop that is awake.
type inbox struct {
	mu sync.Mutex

	// Guarded by mu.
	ops      opList
	n        int  // here and in the loop's backlog
	max      int  // bound of n
	sleeping bool // the loop waits in the kernel, or is about to
	closed   bool
}

// push queues ops, one chain, and reports whether the loop must be woken.
func (b *inbox) push(ops ...*Op) (wake bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false, ErrLoopClosed
	}
	if b.n+len(ops) > b.max {
		return false, ErrLoopFull
	}
	for i, op := range ops {
		if op.submitted {
			panic("uring: an Op submitted while the loop has it")
		}
		op.submitted, op.chain, op.link = true, 0, 0
		if i < len(ops)-1 {
			op.link = IOSQE_IO_LINK // a hard link is the stronger, if set too
		}
		b.ops.push(op)
	}
	ops[0].chain = len(ops)
	b.n += len(ops)
	wake, b.sleeping = b.sleeping, false
	return wake, nil
}

// take empties the inbox. placed says how many operations have left the
// backlog since the last call.
func (b *inbox) take(placed int) (ops opList, closed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.n -= placed
	b.sleeping = false
	ops, b.ops = b.ops, opList{}
	return ops, b.closed
}

// sleep announces that the loop is going to wait, or reports false because
// there is something to take.
func (b *inbox) sleep(placed int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.n -= placed
	b.sleeping = b.ops.empty() && !b.closed
	return b.sleeping
}

// release says how many operations have left the backlog.
func (b *inbox) release(placed int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.n -= placed
}

// close makes push fail from now on. It reports whether it is the first.
func (b *inbox) close() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	first := !b.closed
	b.closed = true
	return first
}
