package uring_test

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/uring"
)

func TestTimeout(t *testing.T) {
	r := newRing(t, uring.Config{})
	ts := uring.Timespec(20 * time.Millisecond)
	begin := time.Now()
	c := do(t, r, func(s *uring.SQE) { s.PrepTimeout(&ts, 0, 0) })
	wantRes(t, "TIMEOUT", c, errno(unix.ETIME))
	if d := time.Since(begin); d < 20*time.Millisecond {
		t.Errorf("TIMEOUT after %v", d)
	}
}

func TestTimeoutCount(t *testing.T) {
	r := newRing(t, uring.Config{})
	long := uring.Timespec(time.Hour)
	queue(t, r, 1, func(s *uring.SQE) { s.PrepTimeout(&long, 2, 0) })
	r.Submit()
	queue(t, r, 2, (*uring.SQE).PrepNop)
	queue(t, r, 3, (*uring.SQE).PrepNop)
	wantRes(t, "TIMEOUT after two completions", reapN(t, r, 3)[1], 0)
}

func TestTimeoutRemoveUpdate(t *testing.T) {
	r := newRing(t, uring.Config{})
	long, short := uring.Timespec(time.Hour), uring.Timespec(time.Millisecond)
	queue(t, r, 1, func(s *uring.SQE) { s.PrepTimeout(&long, 0, 0) })
	queue(t, r, 2, func(s *uring.SQE) { s.PrepTimeoutRemove(1) })
	c := reapN(t, r, 2)
	wantRes(t, "removed TIMEOUT", c[1], errno(unix.ECANCELED))
	wantRes(t, "TIMEOUT_REMOVE", c[2], 0)

	queue(t, r, 1, func(s *uring.SQE) { s.PrepTimeout(&long, 0, 0) })
	queue(t, r, 2, func(s *uring.SQE) { s.PrepTimeoutUpdate(1, &short, 0) })
	c = reapN(t, r, 2)
	wantRes(t, "updated TIMEOUT", c[1], errno(unix.ETIME))
	wantRes(t, "TIMEOUT_REMOVE as update", c[2], 0)
	c[0] = do(t, r, func(s *uring.SQE) { s.PrepTimeoutRemove(1) })
	wantRes(t, "TIMEOUT_REMOVE of none", c[0], errno(unix.ENOENT))
}

func TestPoll(t *testing.T) {
	r := newRing(t, uring.Config{})
	rd, w := pipe(t, 0)
	queue(t, r, 1, func(s *uring.SQE) { s.PrepPollAdd(rd, unix.POLLIN, 0) })
	r.Submit()
	unix.Write(w, []byte("x"))
	wantRes(t, "POLL_ADD", reapN(t, r, 1)[1], unix.POLLIN)

	queue(t, r, 2, func(s *uring.SQE) { s.PrepPollAdd(rd, unix.POLLIN, uring.IORING_POLL_ADD_MULTI) })
	for range 3 {
		c := reapList(t, r, 1)[0]
		wantRes(t, "multishot POLL_ADD", c, unix.POLLIN)
		if !c.More() {
			t.Fatal("multishot POLL_ADD ended")
		}
		unix.Write(w, []byte("x"))
	}
	reapList(t, r, 1)
	queue(t, r, 3, func(s *uring.SQE) { s.PrepPollRemove(2) })
	c := reapN(t, r, 2)
	wantRes(t, "removed POLL_ADD", c[2], errno(unix.ECANCELED))
	wantRes(t, "POLL_REMOVE", c[3], 0)
}

func TestCancel(t *testing.T) {
	r := newRing(t, uring.Config{})
	rd, _ := pipe(t, 0)
	other, _ := pipe(t, 0)
	read := func(data uint64, fd int) {
		queue(t, r, data, func(s *uring.SQE) { s.PrepRead(fd, make([]byte, 1), uring.CurrentPosition) })
	}
	check := func(what string, want int32, cancelled []uint64, prep func(*uring.SQE)) {
		t.Helper()
		queue(t, r, 100, prep)
		c := reapN(t, r, 1+len(cancelled))
		wantRes(t, what, c[100], want)
		for _, data := range cancelled {
			wantRes(t, what+": its target", c[data], errno(unix.ECANCELED))
		}
	}
	read(1, rd)
	read(2, rd)
	read(3, rd)
	read(4, other)
	r.Submit()
	check("by user data", 0, []uint64{2}, func(s *uring.SQE) { s.PrepCancel(2, 0) })
	check("of none", errno(unix.ENOENT), nil, func(s *uring.SQE) { s.PrepCancel(2, 0) })
	check("by descriptor", 2, []uint64{1, 3}, func(s *uring.SQE) { s.PrepCancelFD(rd, uring.IORING_ASYNC_CANCEL_ALL) })
	read(5, rd)
	r.Submit()
	check("of any", 2, []uint64{4, 5}, (*uring.SQE).PrepCancelAny)
	wantCounts(t, r, uring.Counts{})
}

func TestMsgRing(t *testing.T) {
	needOps(t, uring.IORING_OP_MSG_RING)
	target := newRing(t, uring.Config{})
	source := newRing(t, uring.Config{})
	c := do(t, source, func(s *uring.SQE) { s.PrepMsgRing(target.FD(), 42, uring.Uncounted|7) })
	wantRes(t, "MSG_RING", c, 0)
	got := reapN(t, target, 1)[uring.Uncounted|7]
	wantRes(t, "message", got, 42)
	wantCounts(t, target, uring.Counts{})
}

func TestMessageFromAnyThread(t *testing.T) {
	if p, err := probe(); err != nil || p.Register(uring.IORING_REGISTER_SEND_MSG_RING) != uring.Supported {
		t.Skip("no IORING_REGISTER_SEND_MSG_RING")
	}
	r := newRing(t, uring.Config{})
	sent := make(chan error)
	go func() { sent <- r.Message(-3, uring.Uncounted|8) }()
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	wantRes(t, "message", reapN(t, r, 1)[uring.Uncounted|8], -3)
}

func TestDrain(t *testing.T) {
	r := newRing(t, uring.Config{})
	rd, w := pipe(t, 0)
	queue(t, r, 1, func(s *uring.SQE) { s.PrepRead(rd, make([]byte, 1), uring.CurrentPosition) })
	queue(t, r, 2, func(s *uring.SQE) { s.PrepNop(); s.Flags |= uring.IOSQE_IO_DRAIN })
	if _, err := r.SubmitAndWait(1, 10*time.Millisecond); err != nil || r.Ready() != 0 {
		t.Fatalf("%d completions before the pipe was written, %v", r.Ready(), err)
	}
	unix.Write(w, []byte("x"))
	cs := reapList(t, r, 2)
	if cs[0].UserData != 1 || cs[1].UserData != 2 {
		t.Errorf("order %d, %d", cs[0].UserData, cs[1].UserData)
	}
}

func TestAsyncFlag(t *testing.T) {
	r := newRing(t, uring.Config{})
	f := tempFile(t, pattern(10))
	c := do(t, r, func(s *uring.SQE) {
		s.PrepRead(fdOf(f), make([]byte, 10), 0)
		s.Flags |= uring.IOSQE_ASYNC
	})
	wantRes(t, "READ with IOSQE_ASYNC", c, 10)
}

func TestUnknownOperation(t *testing.T) {
	r := newRing(t, uring.Config{})
	c := do(t, r, func(s *uring.SQE) { s.Opcode = 255 })
	wantRes(t, "operation 255", c, errno(unix.EINVAL))
}

func TestEventFD(t *testing.T) {
	r := newRing(t, uring.Config{})
	efd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(efd)
	var count [8]byte
	for _, asyncOnly := range []bool{false, true} {
		if err := r.RegisterEventFD(efd, asyncOnly); err != nil {
			t.Fatal(err)
		}
		do(t, r, (*uring.SQE).PrepNop)
		_, err := unix.Read(efd, count[:])
		if asyncOnly && err != unix.EAGAIN || !asyncOnly && err != nil {
			t.Errorf("asyncOnly %v: read of the eventfd: %v", asyncOnly, err)
		}
		if err := r.UnregisterEventFD(); err != nil {
			t.Fatal(err)
		}
	}
}
