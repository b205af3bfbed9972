package sendpath

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"sluice/uring"
)

// ring is a thread with an io_uring through which payloads leave. Every splice
// takes one of its io-wq workers while it runs (REQ_F_FORCE_ASYNC in
// io_uring/splice.c), so these are bounded: one for each CPU they may run on, for
// a splice to a non-blocking socket computes and never waits.
type ring struct {
	loop *uring.Loop
	pool sync.Pool // of *ringed
	// workers is the most there may be.
	workers int
}

func (s *Sender) startRing(lane int) (*ring, error) {
	if s.cfg.NoRing {
		return nil, errors.New("switched off")
	}
	r := new(ring)
	var cpus unix.CPUSet
	if s.cfg.RingCPUs != nil {
		for _, cpu := range s.cfg.RingCPUs(lane) {
			cpus.Set(cpu)
		}
	}
	if r.workers = cpus.Count(); r.workers == 0 {
		r.workers = runtime.NumCPU()
	}
	most := opsPerPayload + s.io.Pipes.Limit()*opsPerPipe
	var err error
	r.loop, err = uring.StartLoop(uring.LoopConfig{
		Ring:        uring.Config{Entries: ringEntries},
		NewQueue:    s.cfg.newQueue,
		QueueMax:    most,
		InFlightMax: most,
		Thread: func() error {
			// The name is for top and ps; without it nothing is lost.
			_ = os.WriteFile("/proc/thread-self/comm", fmt.Appendf(nil, "sl-s%02d", lane), 0)
			if s.cfg.OnThread != nil {
				return s.cfg.OnThread(lane)
			}
			return nil
		},
		Setup: func(q uring.Queue) error { return r.setupWorkers(q, &cpus) },
	})
	if err != nil {
		return nil, err
	}
	r.pool.New = func() any { return newRinged(r) }
	return r, nil
}

// setupWorkers bounds the workers and says where they may run.
func (r *ring) setupWorkers(q uring.Queue, cpus *unix.CPUSet) error {
	k, ok := q.(*uring.Ring)
	if !ok {
		return nil
	}
	p, err := uring.NewProbe()
	if err != nil {
		return err
	}
	if err := p.RequireOps(uring.IORING_OP_SPLICE, uring.IORING_OP_SEND, uring.IORING_OP_POLL_ADD); err != nil {
		return err
	}
	// Older kernels lack both (before 5.15, 5.14); then the kernel's own limits hold.
	n := uint32(r.workers)
	if _, _, err := k.RegisterIOWQMaxWorkers(n, n); err != nil && !errors.Is(err, unix.EINVAL) {
		return err
	}
	if cpus.Count() == 0 {
		return nil
	}
	if err := k.RegisterIOWQAff(cpus); err != nil && !errors.Is(err, unix.EINVAL) {
		return err
	}
	return nil
}

func (r *ring) close() { _ = r.loop.Close() }

// ringRefused is told that a ring does not take a payload, and turns away from the
// rings if it has ended.
func (s *Sender) ringRefused(err error) {
	s.NoRing.Add(1)
	if !errors.Is(err, uring.ErrLoopClosed) {
		return
	}
	if s.abandonRings() {
		s.remark("a ring has ended: spliced by the server threads", "error", err)
	}
}

// abandonRings has spliced what was to go through a ring, and says whether there
// was any.
func (s *Sender) abandonRings() (any bool) {
	for i := range s.classes {
		any = s.classes[i].path.CompareAndSwap(int32(pathUring), int32(pathSplice)) || any
	}
	return any
}
