package uring_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/uring"
	"sluice/uring/uringtest"
)

// TestLoopUnderFaults copies files through a loop on fake rings of many seeds,
// from several goroutines, with everything going wrong that may. Every
// operation must end exactly once and every byte arrive.
func TestLoopUnderFaults(t *testing.T) {
	const size, unit = 40 << 10, 4 << 10
	data := pattern(size)
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			l := startLoop(t, uring.LoopConfig{
				InFlightMax: 6,
				NewQueue: func() (uring.Queue, error) {
					return uringtest.New(uringtest.Config{Seed: seed, Entries: 8, CQEntries: 4, Faults: uringtest.AllFaults(0.2)}), nil
				},
			})
			src, dst := tempFile(t, data), tempFile(t, nil)
			var wg sync.WaitGroup
			for off := 0; off < size; off += unit {
				wg.Go(func() { copyUnit(t, l, fdOf(src), fdOf(dst), off, unit) })
			}
			wg.Wait()
			got := make([]byte, size+1)
			if n, err := dst.ReadAt(got, 0); n != size || !bytes.Equal(got[:n], data) {
				t.Errorf("copied %d bytes (%v), or other bytes", n, err)
			}
		})
	}
}

func copyUnit(t *testing.T, l *uring.Loop, src, dst, off, n int) {
	buf := make([]byte, n)
	moveAll(t, l, buf, func(s *uring.SQE, part []byte, done int) { s.PrepRead(src, part, uint64(off+done)) })
	moveAll(t, l, buf, func(s *uring.SQE, part []byte, done int) { s.PrepWrite(dst, part, uint64(off+done)) })
}

// moveAll repeats a transfer until all of buf is moved.
func moveAll(t *testing.T, l *uring.Loop, buf []byte, prep func(s *uring.SQE, part []byte, done int)) {
	for done := 0; done < len(buf); {
		c := newCall(func(s *uring.SQE) { prep(s, buf[done:], done) })
		if err := l.Submit(&c.op); err != nil {
			t.Error(err)
			return
		}
		switch cqe := <-c.done; {
		case cqe.Res > 0:
			done += int(cqe.Res)
		case cqe.Res == errno(unix.EAGAIN), cqe.Res == errno(unix.EINTR), cqe.Res == errno(unix.EIO):
		default:
			t.Errorf("transfer: %+v", cqe)
			return
		}
	}
}

// TestSpliceChainUnderFaults sends a file through a pipe in chains, and puts
// right what each leaves behind: the pipe tells how far it came.
func TestSpliceChainUnderFaults(t *testing.T) {
	const size, unit = 64 << 10, 8 << 10
	data := pattern(size)
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			q := uringtest.New(uringtest.Config{Seed: seed, Faults: uringtest.AllFaults(0.15)})
			defer q.Close()
			f := tempFile(t, data)
			rd, w := pipe(t, 0)
			a, b := socketpair(t, unix.SOCK_STREAM)
			got := readAll(b, size)
			for sent := 0; sent < size; {
				in := pending(t, rd)
				queue(t, q, 1, func(s *uring.SQE) {
					s.PrepSplice(fdOf(f), uint64(sent+in), w, uring.CurrentPosition, min(unit-in, size-sent-in), 0)
					s.Flags |= uring.IOSQE_IO_LINK
				})
				queue(t, q, 2, func(s *uring.SQE) {
					s.PrepSplice(rd, uring.CurrentPosition, a, uring.CurrentPosition, min(unit, size-sent), 0)
				})
				for _, c := range reapFaulty(t, q, 2) {
					if c.UserData == 2 && c.Res > 0 {
						sent += int(c.Res)
					}
				}
				for pending(t, rd) > 0 { // a short first half: send what there is
					queue(t, q, 3, func(s *uring.SQE) {
						s.PrepSplice(rd, uring.CurrentPosition, a, uring.CurrentPosition, pending(t, rd), 0)
					})
					if c := reapFaulty(t, q, 1)[0]; c.Res > 0 {
						sent += int(c.Res)
					}
				}
			}
			if !bytes.Equal(<-got, data) {
				t.Error("other bytes on the wire")
			}
		})
	}
}

// reapFaulty is reapList for a ring whose enters fail now and then.
func reapFaulty(t testing.TB, q uring.Queue, n int) []uring.CQE {
	t.Helper()
	var got []uring.CQE
	buf := make([]uring.CQE, 3)
	for deadline := time.Now().Add(waitMax); len(got) < n; {
		_, err := q.SubmitAndWait(1, time.Second)
		if err != nil && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EBUSY) {
			t.Fatal(err)
		}
		got = append(got, buf[:q.Reap(buf)]...)
		if time.Now().After(deadline) {
			t.Fatalf("%d completions of %d", len(got), n)
		}
	}
	return got
}

// FuzzLedger drives a fake ring with any mix of operations, links, flags and
// faults, and checks the books against a second count after every step.
func FuzzLedger(f *testing.F) {
	f.Add(uint64(1), []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 250, 251, 252, 255})
	f.Add(uint64(2), bytes.Repeat([]byte{0x11, 0x84, 0xff, 0x07}, 40))
	for seed := range uint64(8) {
		steps := make([]byte, 200)
		rng := rand.New(rand.NewPCG(seed, 1))
		for i := range steps {
			steps[i] = byte(rng.Uint32())
		}
		f.Add(seed, steps)
	}
	f.Fuzz(func(t *testing.T, seed uint64, steps []byte) {
		p := float64(seed%4) / 10
		q := uringtest.New(uringtest.Config{Seed: seed, Entries: 8, CQEntries: 8, Faults: uringtest.AllFaults(p)})
		b := book{t: t, q: q, open: make(map[uint64]bool)}
		b.rd, b.w = pipe(t, 0)
		for _, step := range steps {
			b.step(step)
			b.check()
		}
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	})
}

// book counts a queue's operations on its own.
type book struct {
	t      *testing.T
	q      uring.Queue
	rd, w  int
	next   uint64
	queued int
	open   map[uint64]bool // queued or in the kernel
}

func (b *book) step(step byte) {
	switch step >> 5 {
	case 7:
		n, err := b.q.Submit()
		b.submitted(n, err)
	case 6:
		n, err := b.q.SubmitAndWait(int(step&3), 0)
		b.submitted(n, err)
	case 5:
		b.reap(int(step & 31))
	default:
		b.prepare(step)
	}
}

func (b *book) prepare(step byte) {
	s := b.q.NextSQE()
	if s == nil {
		if b.queued < 8 {
			b.t.Fatalf("no entry with %d queued of 8", b.queued)
		}
		return
	}
	b.queued++
	switch step & 7 {
	case 0:
		s.PrepRead(b.rd, make([]byte, 4), uring.CurrentPosition)
	case 1:
		s.PrepWrite(b.w, make([]byte, 4), uring.CurrentPosition)
	case 2:
		s.PrepRead(-1, make([]byte, 1), 0)
	case 3:
		s.PrepCancel(b.next-uint64(step&3), 0)
	case 4:
		s.PrepPollAdd(b.rd, unix.POLLIN, uring.IORING_POLL_ADD_MULTI)
	case 5:
		s.PrepCancelAny()
	case 6:
		s.Opcode = 255
	}
	s.Flags = [4]uint8{0, uring.IOSQE_IO_LINK, uring.IOSQE_IO_HARDLINK, uring.IOSQE_IO_DRAIN}[step>>3&3]
	s.UserData = b.next
	b.open[b.next] = true
	b.next++
}

func (b *book) submitted(n int, err error) {
	if err != nil && (n != 0 || !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EBUSY)) {
		b.t.Fatal(n, err)
	}
	b.queued -= n
}

func (b *book) reap(n int) {
	cqes := make([]uring.CQE, n)
	for _, c := range cqes[:b.q.Reap(cqes)] {
		if !b.open[c.UserData] {
			b.t.Fatalf("a completion for operation %d, which has ended or never was", c.UserData)
		}
		if !c.More() {
			delete(b.open, c.UserData)
		}
	}
}

func (b *book) check() {
	want := uring.Counts{Queued: b.queued, InKernel: len(b.open) - b.queued}
	if got := b.q.Counts(); got != want {
		b.t.Fatalf("counts %+v, want %+v", got, want)
	}
}

func TestLedgerPanics(t *testing.T) {
	var l uring.Ledger
	wantPanic(t, "taking what was not queued", func() { l.Take(&uring.SQE{}) })
	wantPanic(t, "discarding what was not queued", func() { l.Discard(1) })
	wantPanic(t, "completing what was not taken", func() { l.Complete(uring.CQE{}) })
	l.Queue()
	wantPanic(t, "a silent operation that is counted", func() { l.Take(&uring.SQE{Flags: uring.IOSQE_CQE_SKIP_SUCCESS}) })
	l = uring.Ledger{}
	l.Queue()
	l.Queue()
	l.Take(&uring.SQE{Flags: uring.IOSQE_CQE_SKIP_SUCCESS | uring.IOSQE_IO_LINK, UserData: uring.Uncounted})
	wantPanic(t, "one that follows it", func() { l.Take(&uring.SQE{}) })
}
