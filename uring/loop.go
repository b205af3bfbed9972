package uring

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// LoopConfig says how to run a [Loop]. Its zero value is a useful loop.
type LoopConfig struct {
	// Ring is the ring to make, on the loop's thread.
	Ring Config
	// NewQueue makes another [Queue] instead, on the loop's thread.
	NewQueue func() (Queue, error)
	// QueueMax bounds the operations that wait to be placed; 0 means 1024.
	QueueMax int
	// InFlightMax bounds those in the kernel; 0 means 256. Unless
	// Ring.CQEntries is set, the completion queue gets twice the room, for
	// multishot operations post more than one.
	InFlightMax int
	// Wake says how to wake the loop.
	Wake Wake
	// Message is called on the loop's thread for what others post to its
	// ring, by [SQE.PrepMsgRing] or [Ring.Message], with [Uncounted] in the
	// user data. nil ignores it.
	Message func(c CQE)
	// Thread runs on the loop's thread, a new one, before the ring is made:
	// the place for an I/O priority or a CPU affinity, which io-wq workers
	// inherit. The thread ends with the loop, and what was changed with it.
	Thread func() error
	// Setup runs on the loop's thread once the queue is there: the place to
	// register files, buffers or worker limits.
	Setup func(Queue) error
}

func (c LoopConfig) withDefaults() LoopConfig {
	if c.QueueMax == 0 {
		c.QueueMax = queueDefault
	}
	if c.InFlightMax == 0 {
		c.InFlightMax = inFlightDefault
	}
	if c.Ring.CQEntries == 0 {
		c.Ring = c.Ring.withDefaults()
		c.Ring.CQEntries = max(uint32(2*c.InFlightMax), c.Ring.Entries)
	}
	if c.NewQueue == nil {
		ring := c.Ring
		c.NewQueue = func() (Queue, error) { return New(ring) }
	}
	return c
}

func (c LoopConfig) validate() error {
	if c.QueueMax < 1 {
		return fmt.Errorf("uring: LoopConfig.QueueMax: %d is not at least 1", c.QueueMax)
	}
	if c.InFlightMax < 1 || c.InFlightMax > inFlightMax {
		return fmt.Errorf("uring: LoopConfig.InFlightMax: %d is not from 1 to %d", c.InFlightMax, inFlightMax)
	}
	return nil
}

// User data of the loop's own operations. They are uncounted, because a
// message comes without an operation of this ring; the loop counts the others
// itself. Messages for LoopConfig.Message have other user data.
const (
	loopsOwn     = Uncounted | 0x75726e67<<32
	wakeEvent    = loopsOwn | 1
	wakeMessage  = loopsOwn | 2
	cancelAnswer = loopsOwn | 3
)

// slot is a place for an operation in the kernel. The user data is the slot's
// number and generation, so that a completion for an operation long gone
// cannot be taken for its successor's.
type slot struct {
	op  *Op
	gen uint32
}

// Stats counts what a loop has done. Ops per enter is the batching.
type Stats struct {
	Submitted uint64 // operations placed in the queue
	Completed uint64 // completions handed to Done
	Enters    uint64 // turns, each at most one io_uring_enter(2)
	Wakes     uint64 // times the loop had to be woken
}

// Loop runs a ring on a locked thread of its own. Any goroutine submits;
// callbacks run on the loop's thread.
type Loop struct {
	in    inbox
	waker waker
	done  chan struct{}
	err   error // set before done is closed

	submitted, completed, enters, wakes atomic.Uint64

	// The loop's thread only.
	q          Queue
	message    func(CQE)
	backlog    opList
	placed     int // left the backlog since the inbox was last told
	chainMax   int // set before the loop is handed out, then constant
	slots      []slot
	free       []uint32
	cqes       [reapBatch]CQE
	wakeBuf    []byte
	wakeArmed  bool
	stopping   bool
	cancels    int // cancellations not yet answered
	cancelNext int // slot the round of cancellations has come to
	roundAfter time.Time
}

// StartLoop starts a loop and returns when it is ready for operations. Close
// it to end its thread.
func StartLoop(cfg LoopConfig) (*Loop, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	l := &Loop{
		in:      inbox{max: cfg.QueueMax},
		waker:   waker{efd: -1},
		done:    make(chan struct{}),
		slots:   make([]slot, cfg.InFlightMax),
		free:    make([]uint32, cfg.InFlightMax),
		wakeBuf: make([]byte, 8),
		message: cfg.Message,
	}
	for i := range l.free {
		l.free[i] = uint32(len(l.free) - 1 - i)
	}
	started := make(chan error)
	onNewThread(func() { l.thread(cfg, started) })
	if err := <-started; err != nil {
		<-l.done
		return nil, err
	}
	return l, nil
}

// thread is what the loop's thread does.
func (l *Loop) thread(cfg LoopConfig, started chan<- error) {
	defer close(l.done)
	err := l.open(cfg)
	started <- err
	if err == nil {
		l.run()
	}
}

func (l *Loop) open(cfg LoopConfig) error {
	if cfg.Thread != nil {
		if err := cfg.Thread(); err != nil {
			return err
		}
	}
	q, err := cfg.NewQueue()
	if err != nil {
		return err
	}
	l.q = q
	if cfg.Setup != nil {
		err = cfg.Setup(q)
	}
	if err == nil {
		err = l.waker.open(q, cfg.Wake)
	}
	if err != nil {
		return errors.Join(err, q.Close())
	}
	// One entry less, so that arming the wake-up never starves a chain.
	l.chainMax = min(q.Space()-1, cfg.InFlightMax, cfg.QueueMax)
	if l.chainMax < 1 {
		l.waker.close()
		return errors.Join(errors.New("uring: the submission queue has no room for an operation beside the wake-up"), q.Close())
	}
	return nil
}

// Submit hands op to the loop. It never blocks: it fails with [ErrLoopFull] or
// [ErrLoopClosed], and then op is still the caller's.
func (l *Loop) Submit(op *Op) error {
	if err := op.checkFlags(true); err != nil {
		return err
	}
	op.target = nil
	return l.push(op)
}

// SubmitChain hands over operations that run one after another: all but the
// last get IOSQE_IO_LINK, unless they have IOSQE_IO_HARDLINK. Each gets its
// completion; those behind a failure get -ECANCELED.
func (l *Loop) SubmitChain(ops ...*Op) error {
	if len(ops) == 0 {
		return nil
	}
	if len(ops) > l.chainMax {
		return errChainLong
	}
	for i, op := range ops {
		if err := op.checkFlags(i == len(ops)-1); err != nil {
			return err
		}
		op.target = nil
	}
	return l.push(ops...)
}

// Cancel submits op as the cancellation of target, which was submitted to the
// same loop before. op completes as [SQE.PrepCancel] says; target's own
// completion tells whether it was cancelled. op's SQE is overwritten.
func (l *Loop) Cancel(op, target *Op) error {
	op.SQE.PrepCancel(0, 0)
	op.target = target
	return l.push(op)
}

func (l *Loop) push(ops ...*Op) error {
	wake, err := l.in.push(ops...)
	if wake {
		l.wakes.Add(1)
		l.waker.wake()
	}
	return err
}

// Stats returns the counts so far.
func (l *Loop) Stats() Stats {
	return Stats{l.submitted.Load(), l.completed.Load(), l.enters.Load(), l.wakes.Load()}
}

// Stop makes the loop refuse operations, cancel those it has and end. It does
// not wait and may be called from Done.
func (l *Loop) Stop() {
	if l.in.close() {
		l.waker.wake()
	}
}

// Done is closed when the loop has ended and all operations are completed.
func (l *Loop) Done() <-chan struct{} { return l.done }

// Close stops the loop and waits for its end. It returns what ended the loop
// before, if something did. Not for callbacks: use Stop there.
func (l *Loop) Close() error {
	l.Stop()
	<-l.done
	return l.err
}

// transient reports whether an error of SubmitAndWait goes away by reaping.
func transient(err error) bool {
	return errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EBUSY)
}
