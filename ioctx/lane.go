package ioctx

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"sluice/uring"
)

// lane carries units to the kernel. submit returns at once; the unit comes back
// through Context.complete unless there is an error.
type lane interface {
	submit(u *unit) error
	// close ends the lane; false if it has not ended by then.
	close(end <-chan time.Time) bool
}

// openLanes starts the submitters, or threads in their place where the kernel
// has no io_uring for us.
func (c *Context) openLanes() []lane {
	n := max(1, c.cfg.Private)
	if c.cfg.NoRing {
		return []lane{newThreadLane(c)}
	}
	var lanes []lane
	for i := range n {
		l, err := newRingLane(c, i)
		if err != nil {
			for _, l := range lanes {
				l.close(nil) // nothing has been submitted
			}
			c.cfg.Log.Warn("no io_uring: data is read on threads, which do not share a kernel io_context", "error", err)
			return []lane{newThreadLane(c)}
		}
		lanes = append(lanes, l)
	}
	return lanes
}

// ringLane is a submitter: a locked thread with a ring. Its io-wq workers take
// its kernel io_context (create_io_thread in kernel/fork.c clones with CLONE_IO).
type ringLane struct {
	ctx  *Context
	loop *uring.Loop
	tid  int // of its thread
}

func newRingLane(c *Context, n int) (l *ringLane, err error) {
	l = &ringLane{ctx: c}
	l.loop, err = uring.StartLoop(uring.LoopConfig{
		Ring:        uring.Config{Entries: ringEntries},
		QueueMax:    opsQueued,
		InFlightMax: opsInFlight,
		Thread: func() error {
			l.tid = unix.Gettid()
			return c.onLaneThread(n)
		},
		Setup: func(q uring.Queue) error { return c.setupWorkers(q, n) },
	})
	return l, err
}

// onLaneThread readies a submitter's thread. A thread gets an io_context when
// its I/O priority is set (ioprio_set(2)); without one there would be nothing for
// its workers to share.
func (c *Context) onLaneThread(n int) error {
	setThreadName(fmt.Sprintf("sl-io%02d", n))
	if err := setIOPriority(); err != nil {
		return err
	}
	if c.cfg.OnThread != nil {
		return c.cfg.OnThread(n)
	}
	return nil
}

func (c *Context) setupWorkers(q uring.Queue, n int) error {
	ring, ok := q.(*uring.Ring)
	if !ok {
		return nil
	}
	// Older kernels lack both (before 5.15, 5.14); then the kernel's own limits hold.
	if _, _, err := ring.RegisterIOWQMaxWorkers(workersMax, 1); err != nil && !errors.Is(err, unix.EINVAL) {
		return err
	}
	if c.cfg.RingCPUs == nil {
		return nil
	}
	var set unix.CPUSet
	for _, cpu := range c.cfg.RingCPUs(n) {
		set.Set(cpu)
	}
	if set.Count() == 0 {
		return nil
	}
	if err := ring.RegisterIOWQAff(&set); err != nil && !errors.Is(err, unix.EINVAL) {
		return err
	}
	return nil
}

func (l *ringLane) close(end <-chan time.Time) bool {
	l.loop.Stop()
	select {
	case <-l.loop.Done():
		return true
	case <-end:
		return false
	}
}

// submit has the kernel begin to read, on a worker: where the device's queue is
// full, even that waits.
func (l *ringLane) submit(u *unit) error {
	u.op.SQE.PrepFadvise(u.fd, uint64(u.off), uint32(u.len()), unix.FADV_WILLNEED)
	u.op.Keep = u
	u.op.Done = l.begun
	return l.loop.Submit(&u.op)
}

// begun waits for the last byte to arrive. That takes no worker: the kernel
// calls back when the page is there (IOCB_WAITQ, for file systems with
// FOP_BUFFER_RASYNC).
func (l *ringLane) begun(op *uring.Op, c uring.CQE) {
	u := op.Keep.(*unit)
	if c.Res < 0 {
		l.ctx.complete(u, unix.Errno(-c.Res))
		return
	}
	last := u.end - 1
	there, err := cached(u.fd, last, 1)
	if err == nil && !there {
		l.ctx.complete(u, errNotKept)
		return
	}
	u.op.SQE.PrepRead(u.fd, u.b[:], uint64(last))
	if err != nil { // not known: reading may begin only now, and wait
		u.op.SQE.Flags |= uring.IOSQE_ASYNC
	}
	u.op.Done = l.arrived
	if err := l.loop.Submit(&u.op); err != nil {
		l.ctx.complete(u, err)
		return
	}
	l.ctx.begun(u)
}

func (l *ringLane) arrived(op *uring.Op, c uring.CQE) {
	u := op.Keep.(*unit)
	if c.Res < 0 {
		l.ctx.complete(u, unix.Errno(-c.Res))
		return
	}
	l.ctx.complete(u, nil) // no byte: the file has become shorter, and there is nothing to wait for
}

// threadLane reads each unit on a thread of Go's, which is what there is without
// io_uring. The bounds on what a device reads at once bound the threads.
type threadLane struct{ ctx *Context }

func newThreadLane(c *Context) *threadLane { return &threadLane{ctx: c} }

func (l *threadLane) close(<-chan time.Time) bool { return true }

func (l *threadLane) submit(u *unit) error {
	go func() { l.ctx.complete(u, l.read(u)) }()
	return nil
}

func (l *threadLane) read(u *unit) error {
	if err := unix.Fadvise(u.fd, u.off, u.len(), unix.FADV_WILLNEED); err != nil {
		return err
	}
	l.ctx.begun(u)
	last := u.end - 1
	if there, err := cached(u.fd, last, 1); err == nil && !there {
		return errNotKept
	}
	_, err := Read(u.fd, u.b[:], last)
	return err
}
