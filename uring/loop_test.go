package uring_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/uring"
	"sluice/uring/uringtest"
)

// call is one operation of a loop and its last completion.
type call struct {
	op   uring.Op
	done chan uring.CQE
}

func newCall(prep func(s *uring.SQE)) *call {
	c := &call{done: make(chan uring.CQE, 1)}
	prep(&c.op.SQE)
	c.op.Done = func(op *uring.Op, cqe uring.CQE) {
		if !cqe.More() {
			c.done <- cqe
		}
	}
	return c
}

func submit(t testing.TB, l *uring.Loop, prep func(s *uring.SQE)) *call {
	t.Helper()
	c := newCall(prep)
	if err := l.Submit(&c.op); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *call) wait(t testing.TB) uring.CQE {
	t.Helper()
	select {
	case cqe := <-c.done:
		return cqe
	case <-time.After(waitMax):
		t.Fatal("no completion")
		panic("unreachable")
	}
}

func startLoop(t testing.TB, cfg uring.LoopConfig) *uring.Loop {
	t.Helper()
	l, err := uring.StartLoop(cfg)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error("Close:", err)
		}
	})
	return l
}

// everyLoop runs f on loops of each kind.
func everyLoop(t *testing.T, f func(t *testing.T, cfg uring.LoopConfig)) {
	for name, cfg := range map[string]uring.LoopConfig{
		"eventfd":  {},
		"msg_ring": {Wake: uring.WakeMsgRing},
		"polled":   {Ring: uring.Config{Flags: uring.IORING_SETUP_SQPOLL, SQThreadIdle: time.Millisecond}},
		"tiny":     {Ring: uring.Config{Entries: 4}, InFlightMax: 3},
		"fake": {NewQueue: func() (uring.Queue, error) {
			return uringtest.New(uringtest.Config{Seed: 1}), nil
		}},
	} {
		t.Run(name, func(t *testing.T) { f(t, cfg) })
	}
}

func TestLoop(t *testing.T) {
	everyLoop(t, func(t *testing.T, cfg uring.LoopConfig) {
		l := startLoop(t, cfg)
		f := tempFile(t, pattern(100))
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() {
				for i := range 50 {
					off := g*10 + i%10
					c := newCall(func(s *uring.SQE) { s.PrepRead(fdOf(f), make([]byte, 200), uint64(off)) })
					c.op.SQE.UserData = uint64(i)
					if err := l.Submit(&c.op); err != nil {
						t.Error(err)
						return
					}
					if cqe := <-c.done; int(cqe.Res) != 100-off || cqe.UserData != uint64(i) {
						t.Errorf("READ at %d: %+v", off, cqe)
					}
				}
			})
		}
		wg.Wait()
		if s := l.Stats(); s.Submitted != 200 || s.Completed != 200 {
			t.Errorf("stats %+v", s)
		}
	})
}

func TestLoopChain(t *testing.T) {
	everyLoop(t, func(t *testing.T, cfg uring.LoopConfig) {
		l := startLoop(t, cfg)
		rd, w := pipe(t, 0)
		f := tempFile(t, pattern(50))
		got := make([]byte, 50)
		for range 20 {
			in := newCall(func(s *uring.SQE) { s.PrepSplice(fdOf(f), 0, w, uring.CurrentPosition, 50, 0) })
			out := newCall(func(s *uring.SQE) { s.PrepRead(rd, got, uring.CurrentPosition) })
			if err := l.SubmitChain(&in.op, &out.op); err != nil {
				t.Fatal(err)
			}
			wantRes(t, "SPLICE", in.wait(t), 50)
			wantRes(t, "READ", out.wait(t), 50)
		}
		bad := newCall(func(s *uring.SQE) { s.PrepRead(-1, got, 0) })
		rest := newCall((*uring.SQE).PrepNop)
		if err := l.SubmitChain(&bad.op, &rest.op); err != nil {
			t.Fatal(err)
		}
		wantRes(t, "READ of no file", bad.wait(t), errno(unix.EBADF))
		wantRes(t, "what links to it", rest.wait(t), errno(unix.ECANCELED))
	})
}

// TestLoopMessage: one loop posts to another's ring.
func TestLoopMessage(t *testing.T) {
	needOps(t, uring.IORING_OP_MSG_RING)
	var fd int
	got := make(chan uring.CQE, 1)
	target := startLoop(t, uring.LoopConfig{
		Message: func(c uring.CQE) { got <- c },
		Setup:   func(q uring.Queue) error { fd = q.(*uring.Ring).FD(); return nil },
	})
	source := startLoop(t, uring.LoopConfig{})
	c := submit(t, source, func(s *uring.SQE) { s.PrepMsgRing(fd, 11, uring.Uncounted|5) })
	wantRes(t, "MSG_RING", c.wait(t), 0)
	if m := <-got; m.Res != 11 || m.UserData != uring.Uncounted|5 {
		t.Errorf("message %+v", m)
	}
	wantRes(t, "NOP after a message", submit(t, target, (*uring.SQE).PrepNop).wait(t), 0)
}

func TestLoopRefuses(t *testing.T) {
	l := startLoop(t, uring.LoopConfig{Ring: uring.Config{Entries: 4}})
	for name, flag := range map[string]uint8{
		"skip": uring.IOSQE_CQE_SKIP_SUCCESS, "link": uring.IOSQE_IO_LINK, "hard link": uring.IOSQE_IO_HARDLINK,
	} {
		op := &uring.Op{}
		op.SQE.Flags = flag
		if l.Submit(op) == nil {
			t.Errorf("Submit with a %s flag is no error", name)
		}
	}
	if l.SubmitChain(&uring.Op{}, &uring.Op{}, &uring.Op{}, &uring.Op{}) == nil {
		t.Error("a chain longer than the queue is no error")
	}
	rd, _ := pipe(t, 0)
	c := submit(t, l, func(s *uring.SQE) { s.PrepRead(rd, make([]byte, 1), uring.CurrentPosition) })
	wantPanic(t, "submitting an operation twice", func() { l.Submit(&c.op) })
}

func TestLoopCancel(t *testing.T) {
	everyLoop(t, func(t *testing.T, cfg uring.LoopConfig) {
		l := startLoop(t, cfg)
		rd, _ := pipe(t, 0)
		target := submit(t, l, func(s *uring.SQE) { s.PrepRead(rd, make([]byte, 1), uring.CurrentPosition) })
		for _, want := range []int32{0, errno(unix.ENOENT)} {
			cancel := newCall((*uring.SQE).PrepNop)
			if err := l.Cancel(&cancel.op, &target.op); err != nil {
				t.Fatal(err)
			}
			if want == 0 {
				wantRes(t, "target", target.wait(t), errno(unix.ECANCELED))
			}
			wantRes(t, "Cancel", cancel.wait(t), want)
		}
	})
}

func TestLoopQueueFull(t *testing.T) {
	l := startLoop(t, uring.LoopConfig{QueueMax: 3, InFlightMax: 2})
	rd, w := pipe(t, 0)
	var calls []*call
	for deadline := time.Now().Add(waitMax); ; {
		c := newCall(func(s *uring.SQE) { s.PrepRead(rd, make([]byte, 1), uring.CurrentPosition) })
		err := l.Submit(&c.op)
		if err == uring.ErrLoopFull && len(calls) >= 5 {
			break
		}
		if err == nil {
			calls = append(calls, c)
		} else if err != uring.ErrLoopFull || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	if len(calls) != 5 {
		t.Errorf("%d operations accepted, want 2 in flight and 3 waiting", len(calls))
	}
	unix.Write(w, make([]byte, len(calls)))
	for _, c := range calls {
		wantRes(t, "READ", c.wait(t), 1)
	}
}

// TestLoopShutdown closes loops with everything in flight that can hang: reads
// of empty pipes, the same on workers, chains, timeouts, multishot polls, and
// more operations than fit.
func TestLoopShutdown(t *testing.T) {
	everyLoop(t, func(t *testing.T, cfg uring.LoopConfig) {
		l := startLoop(t, cfg)
		rd, _ := pipe(t, 0)
		_, full := pipe(t, 0)
		hour := uring.Timespec(time.Hour)
		var ended, begun atomic.Int64
		op := func(prep func(s *uring.SQE)) *uring.Op {
			begun.Add(1)
			o := &uring.Op{Done: func(op *uring.Op, c uring.CQE) {
				if !c.More() {
					ended.Add(1)
					if err := l.Submit(op); err != uring.ErrLoopClosed {
						t.Errorf("Submit during shutdown: %v", err)
					}
				}
			}}
			prep(&o.SQE)
			return o
		}
		read := func(s *uring.SQE) { s.PrepRead(rd, make([]byte, 1), uring.CurrentPosition) }
		for range 20 {
			l.Submit(op(read))
			l.Submit(op(func(s *uring.SQE) { read(s); s.Flags |= uring.IOSQE_ASYNC }))
			l.Submit(op(func(s *uring.SQE) { s.PrepTimeout(&hour, 0, 0) }))
			l.Submit(op(func(s *uring.SQE) { s.PrepPollAdd(rd, unix.POLLIN, uring.IORING_POLL_ADD_MULTI) }))
			l.SubmitChain(op(func(s *uring.SQE) {
				s.PrepSplice(rd, uring.CurrentPosition, full, uring.CurrentPosition, 10, 0)
			}), op((*uring.SQE).PrepNop))
		}
		time.Sleep(5 * time.Millisecond)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if begun.Load() != ended.Load() {
			t.Errorf("%d operations begun, %d ended", begun.Load(), ended.Load())
		}
		if err := l.Submit(&uring.Op{}); err != uring.ErrLoopClosed {
			t.Errorf("Submit on a closed loop: %v", err)
		}
		<-l.Done()
	})
}

func TestLoopHooks(t *testing.T) {
	boom := errors.New("boom")
	for name, cfg := range map[string]uring.LoopConfig{
		"thread": {Thread: func() error { return boom }},
		"queue":  {NewQueue: func() (uring.Queue, error) { return nil, boom }},
		"setup":  {Setup: func(uring.Queue) error { return boom }},
	} {
		if _, err := uring.StartLoop(cfg); !errors.Is(err, boom) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, cfg := range []uring.LoopConfig{{QueueMax: -1}, {InFlightMax: -1}, {InFlightMax: 1 << 20}, {Ring: uring.Config{Entries: 1}}} {
		if _, err := uring.StartLoop(cfg); err == nil {
			t.Errorf("%+v is no error", cfg)
		}
	}
}

// brokenQueue fails for good after some submissions.
type brokenQueue struct {
	uring.Queue
	left int
}

func (q *brokenQueue) SubmitAndWait(n int, timeout time.Duration) (int, error) {
	if q.left--; q.left < 0 {
		return 0, unix.EBADR
	}
	return q.Queue.SubmitAndWait(n, timeout)
}

func TestLoopFails(t *testing.T) {
	l, err := uring.StartLoop(uring.LoopConfig{NewQueue: func() (uring.Queue, error) {
		return &brokenQueue{Queue: uringtest.New(uringtest.Config{}), left: 3}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	rd, _ := pipe(t, 0)
	var calls []*call
	for {
		c := newCall(func(s *uring.SQE) { s.PrepRead(rd, make([]byte, 1), uring.CurrentPosition) })
		if err := l.Submit(&c.op); err != nil {
			break
		}
		calls = append(calls, c)
		time.Sleep(time.Millisecond)
	}
	for _, c := range calls {
		wantRes(t, "operation of a failed loop", c.wait(t), errno(unix.ECANCELED))
	}
	if err := l.Close(); err != unix.EBADR {
		t.Errorf("Close: %v", err)
	}
}
