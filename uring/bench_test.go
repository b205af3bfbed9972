package uring_test

import (
	"testing"

	"golang.org/x/sys/unix"

	"sluice/uring"
)

// nops submits n NOPs in one enter and reaps them.
func nops(b testing.TB, r *uring.Ring, cqes []uring.CQE, n int) {
	for range n {
		r.NextSQE().PrepNop()
	}
	for left := n; left > 0; {
		if _, err := r.SubmitAndWait(left, -1); err != nil {
			b.Fatal(err)
		}
		left -= r.Reap(cqes[:left])
	}
}

func BenchmarkNop(b *testing.B) {
	plain := uring.Config{Flags: uring.IORING_SETUP_CLAMP}
	for _, c := range []struct {
		name       string
		cfg        uring.Config
		batch      int
		registered bool
	}{
		{"batch=1", uring.Config{}, 1, false},
		{"batch=1/registered-ring", uring.Config{}, 1, true},
		{"batch=1/no-flags", plain, 1, false},
		{"batch=32", uring.Config{}, 32, false},
		{"batch=32/registered-ring", uring.Config{}, 32, true},
		{"batch=32/no-flags", plain, 32, false},
	} {
		b.Run(c.name, func(b *testing.B) {
			r := newRing(b, c.cfg)
			if c.registered {
				if err := r.RegisterRingFD(); err != nil {
					b.Skip(err)
				}
			}
			cqes := make([]uring.CQE, c.batch)
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				nops(b, r, cqes, c.batch)
				n += c.batch
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "ops/s")
		})
	}
}

// BenchmarkLoop is the whole way: Submit, wake-up, ring, call-back, and back
// to the submitter. With one operation at a time it is the latency of two
// thread switches; with 32, throughput.
func BenchmarkLoop(b *testing.B) {
	for _, c := range []struct {
		name  string
		wake  uring.Wake
		batch int
	}{
		{"eventfd/batch=1", uring.WakeEventFD, 1},
		{"msg-ring/batch=1", uring.WakeMsgRing, 1},
		{"eventfd/batch=32", uring.WakeEventFD, 32},
		{"msg-ring/batch=32", uring.WakeMsgRing, 32},
	} {
		b.Run(c.name, func(b *testing.B) {
			l := startLoop(b, uring.LoopConfig{Wake: c.wake})
			run := loopBatch(b, l, c.batch)
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				run()
				n += c.batch
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "ops/s")
		})
	}
}

// loopBatch returns a function that submits n NOPs and waits for them.
func loopBatch(t testing.TB, l *uring.Loop, n int) func() {
	done := make(chan struct{}, n)
	ops := make([]uring.Op, n)
	for i := range ops {
		ops[i].SQE.PrepNop()
		ops[i].Done = func(*uring.Op, uring.CQE) { done <- struct{}{} }
	}
	return func() {
		for i := range ops {
			if err := l.Submit(&ops[i]); err != nil {
				t.Fatal(err)
			}
		}
		for range ops {
			<-done
		}
	}
}

// BenchmarkSpliceChain sends from the page cache by a linked file → pipe →
// socket, 1 MiB at a time; the peer throws it away.
func BenchmarkSpliceChain(b *testing.B) {
	const n = 1 << 20
	r := newRing(b, uring.Config{})
	f := tempFile(b, pattern(n))
	rd, w := sizedPipe(b, n, 0)
	a, peer := tcpPair(b, 0)
	go func() {
		buf := make([]byte, n)
		for {
			if m, _, err := unix.Recvfrom(peer, buf, unix.MSG_TRUNC); err != unix.EINTR && (err != nil || m == 0) {
				return
			}
		}
	}()
	b.Cleanup(func() { unix.Shutdown(a, unix.SHUT_RDWR) })
	b.SetBytes(n)
	var cqes [2]uring.CQE
	for b.Loop() {
		s := r.NextSQE()
		s.PrepSplice(fdOf(f), 0, w, uring.CurrentPosition, n, 0)
		s.Flags = uring.IOSQE_IO_LINK
		r.NextSQE().PrepSplice(rd, uring.CurrentPosition, a, uring.CurrentPosition, n, 0)
		for got := 0; got < 2; {
			r.SubmitAndWait(2-got, -1)
			k := r.Reap(cqes[:2-got])
			for _, c := range cqes[:k] {
				if c.Res != n {
					b.Fatal(c.Res, c.Err())
				}
			}
			got += k
		}
	}
}

// TestNoAllocations pins what the benchmarks show: the steady state of a ring
// and of a loop allocates nothing.
func TestNoAllocations(t *testing.T) {
	r := newRing(t, uring.Config{})
	cqes := make([]uring.CQE, 32)
	f := tempFile(t, pattern(64))
	buf := make([]byte, 64)
	ts := uring.Timespec(0)
	for name, run := range map[string]func(){
		"one":  func() { nops(t, r, cqes, 1) },
		"32":   func() { nops(t, r, cqes, 32) },
		"poll": func() { r.SubmitAndWait(1, 1) },
		"read and timeout": func() {
			r.NextSQE().PrepRead(fdOf(f), buf, 0)
			r.NextSQE().PrepTimeout(&ts, 0, 0)
			r.SubmitAndWait(2, -1)
			for _, c := range cqes[:r.Reap(cqes)] {
				_ = c.Err()
			}
		},
	} {
		if n := testing.AllocsPerRun(200, run); n != 0 {
			t.Errorf("ring, %s: %v allocations", name, n)
		}
	}
	for name, wake := range map[string]uring.Wake{"eventfd": uring.WakeEventFD, "msg_ring": uring.WakeMsgRing} {
		l := startLoop(t, uring.LoopConfig{Wake: wake})
		for _, batch := range []int{1, 32} {
			if n := testing.AllocsPerRun(200, loopBatch(t, l, batch)); n != 0 {
				t.Errorf("loop, %s, %d at a time: %v allocations", name, batch, n)
			}
		}
		var a, b uring.Op
		done := make(chan struct{}, 1)
		a.SQE.PrepNop()
		b.SQE.PrepNop()
		b.Done = func(*uring.Op, uring.CQE) { done <- struct{}{} }
		chain := func() {
			if err := l.SubmitChain(&a, &b); err != nil {
				t.Fatal(err)
			}
			<-done
		}
		if n := testing.AllocsPerRun(200, chain); n != 0 {
			t.Errorf("loop, %s, chain: %v allocations", name, n)
		}
	}
}
