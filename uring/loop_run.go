package uring

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// run turns until all is done. One turn: take what was submitted, place what
// fits, enter the kernel once, call back for what it completed.
func (l *Loop) run() {
	for {
		l.intake()
		if l.stopping {
			l.abortBacklog()
			if l.idle() {
				l.finish()
				return
			}
			l.cancelRound()
		} else {
			l.armWake()
			l.place()
		}
		if err := l.turn(); err != nil {
			l.fail(err)
			return
		}
	}
}

func (l *Loop) intake() {
	ops, closed := l.in.take(l.placed)
	l.placed = 0
	l.backlog.append(ops)
	l.stopping = closed
}

// armWake keeps a read of the eventfd in the kernel.
func (l *Loop) armWake() {
	if l.wakeArmed {
		return
	}
	if s := l.q.NextSQE(); s != nil {
		s.PrepRead(l.waker.efd, l.wakeBuf, CurrentPosition)
		s.UserData = wakeEvent
		l.wakeArmed = true
	}
}

// place moves operations from the backlog to the submission queue, a chain
// only when all of it fits: the kernel ends a chain where a submission ends.
func (l *Loop) place() {
	for !l.backlog.empty() {
		n := l.backlog.head.chain
		if len(l.free) < n || l.q.Space() < n {
			return
		}
		for range n {
			l.placeOne(l.backlog.pop())
		}
		l.placed += n
	}
}

func (l *Loop) placeOne(op *Op) {
	if op.target != nil {
		if !op.target.live {
			l.abort(op, unix.ENOENT)
			return
		}
		op.SQE.Addr = op.target.id
	}
	i := l.free[len(l.free)-1]
	l.free = l.free[:len(l.free)-1]
	sl := &l.slots[i]
	sl.gen = (sl.gen + 1) &^ (1 << 31) // the topmost bit is Uncounted
	sl.op = op
	op.id, op.live = uint64(sl.gen)<<32|uint64(i), true
	s := l.q.NextSQE()
	*s = op.SQE
	s.Flags |= op.link
	s.UserData = op.id
	l.submitted.Add(1)
}

// turn enters the kernel and calls back for what has completed.
func (l *Loop) turn() error {
	wait, timeout := l.patience()
	_, err := l.q.SubmitAndWait(wait, timeout)
	l.enters.Add(1)
	n := l.reap()
	if err == nil {
		return nil
	}
	if !transient(err) {
		return err
	}
	if n == 0 {
		time.Sleep(retryPause)
	}
	return nil
}

// patience says how many completions to wait for and how long.
func (l *Loop) patience() (wait int, timeout time.Duration) {
	switch {
	case l.stopping && l.cancelNext > 0:
		return 0, 0 // the round of cancellations goes on
	case l.stopping:
		return 1, cancelPause
	case !l.wakeArmed:
		return 0, 0 // nothing would end the wait
	case !l.backlog.empty() && len(l.free) >= l.backlog.head.chain:
		return 0, 0 // only the submission queue was full
	}
	placed := l.placed
	l.placed = 0
	if !l.backlog.empty() { // all slots are taken: no need to be woken for more
		l.in.release(placed)
		return 1, -1
	}
	if !l.in.sleep(placed) {
		return 0, 0
	}
	return 1, -1
}

func (l *Loop) reap() (total int) {
	for {
		n := l.q.Reap(l.cqes[:])
		for _, c := range l.cqes[:n] {
			l.complete(c)
		}
		total += n
		if n < len(l.cqes) {
			return total
		}
	}
}

func (l *Loop) complete(c CQE) {
	switch c.UserData {
	case wakeEvent:
		l.wakeArmed = false
		return
	case wakeMessage:
		return
	case cancelAnswer:
		l.cancels--
		return
	}
	if c.UserData&Uncounted != 0 {
		if l.message != nil {
			l.message(c)
		}
		return
	}
	i, gen := uint32(c.UserData), uint32(c.UserData>>32)
	if int(i) >= len(l.slots) || l.slots[i].op == nil || l.slots[i].gen != gen {
		panic("uring: a completion for an operation that is not in flight")
	}
	op := l.slots[i].op
	c.UserData = op.SQE.UserData
	if !c.More() {
		l.slots[i].op = nil
		l.free = append(l.free, i)
		op.live = false
	}
	l.callBack(op, c)
}

func (l *Loop) callBack(op *Op, c CQE) {
	if !c.More() {
		op.submitted = false
	}
	l.completed.Add(1)
	if op.Done != nil {
		op.Done(op, c)
	}
}

// abort completes an operation that the kernel never saw.
func (l *Loop) abort(op *Op, errno unix.Errno) {
	l.callBack(op, CQE{UserData: op.SQE.UserData, Res: -int32(errno)})
}

func (l *Loop) abortBacklog() {
	for !l.backlog.empty() {
		l.placed++
		l.abort(l.backlog.pop(), unix.ECANCELED)
	}
}

// inFlight returns how many slots are taken.
func (l *Loop) inFlight() int { return len(l.slots) - len(l.free) }

func (l *Loop) idle() bool {
	return l.inFlight() == 0 && l.cancels == 0 && !l.wakeArmed && l.q.Counts().Queued == 0
}

// cancelRound asks the kernel to cancel every operation in flight, by its own
// user data: that works on every kernel, and a cancellation of "any" would
// cancel the other cancellations. A full submission queue interrupts the round
// until the next turn. When a round is through and something is left, a
// running operation or a chain's next one, another follows after a pause.
func (l *Loop) cancelRound() {
	if l.cancelNext == 0 {
		if l.cancels > 0 || time.Now().Before(l.roundAfter) {
			return
		}
		if l.wakeArmed && !l.cancel(wakeEvent) {
			return
		}
	}
	for ; l.cancelNext < len(l.slots); l.cancelNext++ {
		if op := l.slots[l.cancelNext].op; op != nil && !l.cancel(op.id) {
			return
		}
	}
	l.cancelNext = 0
	l.roundAfter = time.Now().Add(cancelPause)
}

func (l *Loop) cancel(id uint64) bool {
	s := l.q.NextSQE()
	if s == nil {
		return false
	}
	s.PrepCancel(id, 0)
	s.UserData = cancelAnswer
	l.cancels++
	return true
}

func (l *Loop) finish() {
	l.waker.close()
	l.err = l.q.Close()
}

// fail ends the loop after an error that the ring does not recover from. Close
// waits for the kernel to let go of the operations; if it does not, they are
// kept reachable for ever, since it may still write to their memory.
func (l *Loop) fail(err error) {
	l.in.close()
	l.intake()
	l.waker.close()
	l.err = err
	if l.q.Close() != nil {
		abandoned.mu.Lock()
		abandoned.slots = append(abandoned.slots, l.slots)
		abandoned.mu.Unlock()
	}
	for _, sl := range l.slots {
		if sl.op != nil {
			sl.op.live = false
			l.abort(sl.op, unix.ECANCELED)
		}
	}
	l.abortBacklog()
}

// abandoned holds what the kernel may use until the process ends.
var abandoned struct {
	mu sync.Mutex

	// Guarded by mu.
	slots [][]slot
}
