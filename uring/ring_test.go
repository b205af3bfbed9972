package uring_test

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/uring"
)

// TestSetupFlags runs operations on rings of every kind.
func TestSetupFlags(t *testing.T) {
	const (
		clamp  = uring.IORING_SETUP_CLAMP
		single = uring.IORING_SETUP_SINGLE_ISSUER
		defers = single | uring.IORING_SETUP_DEFER_TASKRUN
		sqpoll = uring.IORING_SETUP_SQPOLL
		coop   = uring.IORING_SETUP_COOP_TASKRUN
	)
	wq := newRing(t, uring.Config{})
	wqPoll := newRing(t, uring.Config{Flags: sqpoll, SQThreadIdle: time.Millisecond})
	for name, cfg := range map[string]uring.Config{
		"plain":               {Flags: clamp},
		"clamped":             {Flags: clamp, Entries: 1 << 20},
		"completion queue":    {Flags: clamp, Entries: 4, CQEntries: 1024},
		"single issuer":       {Flags: single},
		"deferred":            {Flags: defers},
		"deferred, told":      {Flags: defers | uring.IORING_SETUP_TASKRUN_FLAG},
		"cooperative":         {Flags: coop},
		"cooperative, told":   {Flags: coop | uring.IORING_SETUP_TASKRUN_FLAG},
		"submit all":          {Flags: uring.IORING_SETUP_SUBMIT_ALL},
		"no array":            {Flags: uring.IORING_SETUP_NO_SQARRAY},
		"workers attached":    {Flags: uring.IORING_SETUP_ATTACH_WQ, WQFD: wq.FD()},
		"polled":              {Flags: sqpoll, SQThreadIdle: 5 * time.Millisecond},
		"polled, no array":    {Flags: sqpoll | uring.IORING_SETUP_NO_SQARRAY},
		"polled on a CPU":     {Flags: sqpoll | uring.IORING_SETUP_SQ_AFF, SQThreadIdle: time.Millisecond},
		"polled, attached":    {Flags: sqpoll | uring.IORING_SETUP_ATTACH_WQ, WQFD: wqPoll.FD()},
		"polled, single":      {Flags: sqpoll | single, SQThreadIdle: time.Millisecond},
		"recommended, 1 slot": {Entries: 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRing(t, cfg)
			if r.Flags()&cfg.Flags != cfg.Flags {
				t.Errorf("flags %#x, asked for %#x", r.Flags(), cfg.Flags)
			}
			exercise(t, r)
		})
	}
}

// exercise goes round both queues several times, with pauses for a polling
// thread to fall asleep in.
func exercise(t *testing.T, r *uring.Ring) {
	t.Helper()
	f := tempFile(t, pattern(4096))
	var next, seen uint64
	sq, _ := r.Entries()
	for round := range 5 {
		if round > 2 {
			time.Sleep(3 * time.Millisecond)
		}
		for range min(sq+sq/2, 300) {
			s := r.NextSQE()
			for deadline := time.Now().Add(waitMax); s == nil; s = r.NextSQE() {
				if _, err := r.Submit(); err != nil {
					t.Fatal(err)
				}
				if time.Now().After(deadline) {
					t.Fatal("the submission queue stays full")
				}
			}
			if next%2 == 0 {
				s.PrepNop()
			} else {
				s.PrepRead(fdOf(f), make([]byte, 16), 0)
			}
			s.UserData = next
			next++
		}
		for _, c := range reapList(t, r, int(next-seen)) {
			wantRes(t, "operation", c, int32(c.UserData%2*16))
			seen++
		}
	}
	wantCounts(t, r, uring.Counts{})
}

func TestDisabledRing(t *testing.T) {
	r := newRing(t, uring.Config{Flags: uring.IORING_SETUP_R_DISABLED})
	r.NextSQE().PrepNop()
	if _, err := r.Submit(); !errors.Is(err, unix.EBADFD) {
		t.Fatalf("Submit on a disabled ring: %v", err)
	}
	wantCounts(t, r, uring.Counts{Queued: 1})
	if err := r.Enable(); err != nil {
		t.Fatal(err)
	}
	reapList(t, r, 1)
	if err := r.Enable(); !errors.Is(err, unix.EBADFD) {
		t.Errorf("Enable twice: %v", err)
	}
}

func TestOtherThreadRefused(t *testing.T) {
	r := newRing(t, uring.Config{Flags: uring.IORING_SETUP_SINGLE_ISSUER})
	done := make(chan error)
	go func() {
		r.NextSQE().PrepNop()
		_, err := r.Submit()
		done <- err
	}()
	if err := <-done; !errors.Is(err, unix.EEXIST) {
		t.Fatalf("Submit from another thread: %v", err)
	}
	reapList(t, r, 1)
}

func TestQueueFull(t *testing.T) {
	r := newRing(t, uring.Config{Entries: 4})
	for range 4 {
		r.NextSQE()
	}
	if s := r.NextSQE(); s != nil || r.Space() != 0 {
		t.Errorf("a fifth entry of four; space %d", r.Space())
	}
	wantCounts(t, r, uring.Counts{Queued: 4})
	if n, err := r.Submit(); n != 4 || err != nil {
		t.Errorf("Submit: %d, %v", n, err)
	}
	if r.Space() != 4 {
		t.Errorf("space %d after Submit", r.Space())
	}
	reapList(t, r, 4)
}

func TestWaitTimeout(t *testing.T) {
	r := newRing(t, uring.Config{})
	for _, d := range []time.Duration{0, 5 * time.Millisecond} {
		begin := time.Now()
		n, err := r.SubmitAndWait(1, d)
		if n != 0 || err != nil || time.Since(begin) < d || time.Since(begin) > waitMax {
			t.Errorf("SubmitAndWait for %v: %d, %v after %v", d, n, err, time.Since(begin))
		}
	}
}

// TestOverflow fills a completion queue of 8 five times over.
func TestOverflow(t *testing.T) {
	for name, cfg := range map[string]uring.Config{
		"recommended": {Entries: 4, CQEntries: 8},
		"plain":       {Entries: 4, CQEntries: 8, Flags: uring.IORING_SETUP_CLAMP},
		"polled":      {Entries: 4, CQEntries: 8, Flags: uring.IORING_SETUP_SQPOLL, SQThreadIdle: time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRing(t, cfg)
			const n = 40
			for i := range uint64(n) {
				for r.Space() == 0 {
					r.Submit()
				}
				queue(t, r, i, (*uring.SQE).PrepNop)
				if _, err := r.Submit(); err != nil && !errors.Is(err, unix.EBUSY) {
					t.Fatal(err)
				}
			}
			for deadline := time.Now().Add(waitMax); !r.Overflowed(); {
				if _, err := r.SubmitAndWait(0, 0); err != nil && !errors.Is(err, unix.EBUSY) {
					t.Fatal(err)
				}
				if time.Now().After(deadline) {
					t.Fatal("no overflow")
				}
			}
			wantCounts(t, r, uring.Counts{InKernel: n})
			got := make(map[uint64]bool)
			buf := make([]uring.CQE, 3)
			for deadline := time.Now().Add(waitMax); len(got) < n; {
				for _, c := range buf[:r.Reap(buf)] {
					got[c.UserData] = true
				}
				if _, err := r.SubmitAndWait(0, 0); err != nil && !errors.Is(err, unix.EBUSY) {
					t.Fatal(err)
				}
				if time.Now().After(deadline) {
					t.Fatalf("%d completions of %d", len(got), n)
				}
			}
			if r.Overflowed() || r.Lost() != 0 {
				t.Errorf("overflowed %v, lost %d", r.Overflowed(), r.Lost())
			}
			wantCounts(t, r, uring.Counts{})
		})
	}
}

// TestClose closes a ring with operations that will not end by themselves, and
// with some that were never submitted.
func TestClose(t *testing.T) {
	for name, cfg := range map[string]uring.Config{
		"recommended": {}, "polled": {Flags: uring.IORING_SETUP_SQPOLL, SQThreadIdle: time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := uring.New(cfg)
			if err != nil {
				t.Skip(err)
			}
			rd, w := pipe(t, 0)
			for range 3 {
				r.NextSQE().PrepRead(rd, make([]byte, 1), uring.CurrentPosition)
				s := r.NextSQE() // blocks on a worker
				s.PrepRead(rd, make([]byte, 1), uring.CurrentPosition)
				s.Flags |= uring.IOSQE_ASYNC
			}
			if _, err := r.Submit(); err != nil {
				t.Fatal(err)
			}
			r.NextSQE()
			if err := r.Close(); err != nil {
				t.Error(err)
			}
			if err := r.Close(); err != nil {
				t.Error("second Close:", err)
			}
			unix.Write(w, []byte("x"))
			unix.SetNonblock(rd, true)
			if n, err := unix.Read(rd, make([]byte, 1)); n != 1 {
				t.Errorf("a closed ring read the pipe: %d, %v", n, err)
			}
		})
	}
}

func TestRegisterRingFD(t *testing.T) {
	r := newRing(t, uring.Config{})
	if err := r.RegisterRingFD(); err != nil {
		t.Skip(err)
	}
	exercise(t, r)
	if err := r.UnregisterRingFD(); err != nil {
		t.Fatal(err)
	}
	exercise(t, r)
	if err := r.RegisterRingFD(); err != nil { // and close it so
		t.Fatal(err)
	}
}

func TestConfigErrors(t *testing.T) {
	for _, c := range []struct {
		cfg  uring.Config
		want string
	}{
		{uring.Config{Entries: 40000, Flags: uring.IORING_SETUP_SUBMIT_ALL}, "uring: Config.Entries: 40000 is beyond the kernel's 32768 (or set IORING_SETUP_CLAMP)"},
		{uring.Config{Entries: 8, CQEntries: 4}, "uring: Config.CQEntries: 4 is not from Entries (8) to 65536"},
		{uring.Config{Flags: uring.IORING_SETUP_SQE128}, "uring: Config.Flags: this package does not handle IORING_SETUP_SQE128"},
		{uring.Config{Flags: uring.IORING_SETUP_SQ_AFF}, "uring: Config.Flags: IORING_SETUP_SQ_AFF needs IORING_SETUP_SQPOLL"},
		{uring.Config{Flags: uring.IORING_SETUP_DEFER_TASKRUN}, "uring: Config.Flags: IORING_SETUP_DEFER_TASKRUN needs IORING_SETUP_SINGLE_ISSUER"},
		{uring.Config{Flags: uring.IORING_SETUP_SQPOLL | uring.IORING_SETUP_COOP_TASKRUN}, "uring: Config.Flags: IORING_SETUP_SQPOLL excludes IORING_SETUP_COOP_TASKRUN"},
		{uring.Config{SQThreadIdle: time.Microsecond}, "uring: Config.SQThreadIdle: 1µs is not 0 or at least 1ms"},
	} {
		_, err := uring.New(c.cfg)
		if err == nil || err.Error() != c.want {
			t.Errorf("New: %v, want %s", err, c.want)
		}
	}
}
