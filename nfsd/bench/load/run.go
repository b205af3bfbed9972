package load

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// MaxConns bounds the connections of a run.
const MaxConns = 4096

// Options are a run's.
type Options struct {
	// Dial makes a connection: a non-blocking TCP socket.
	Dial   func(context.Context) (fd int, err error)
	Source Source
	// Conns and Depth are how many connections there are, and how many calls are
	// outstanding on each; from 1 to MaxConns and MaxDepth.
	Conns, Depth int
	// Threads drive the connections. 0 means half of the CPUs: the other half is the
	// server's if it is here, and one thread discards more than a network brings.
	Threads int
	// MaxCount is the longest READ, in bytes.
	MaxCount uint32
	// Time ends the run if the source has not; 0 means no limit.
	Time time.Duration
	// Timeout is how long a connection may be without a reply that it waits for.
	Timeout time.Duration
	// Verify, if set, gets all data that is read, piece by piece, from several
	// threads at once.
	Verify func(file int, off uint64, data []byte) error
	// Begin, if set, is called when all connections stand, before the first call; End
	// after the last reply.
	Begin, End func()
	// Progress, if set, is called now and then with what has been done so far.
	Progress func(calls, bytes uint64)
}

// Result is what a run came to.
type Result struct {
	Elapsed      time.Duration
	Calls, Bytes uint64
	Latency      *hdrhistogram.Histogram // nanoseconds
	// Partial says that the run was interrupted.
	Partial bool
}

var errAborted = errors.New("aborted")

// run is a run under way.
type run struct {
	o       *Options
	began   time.Time
	threads []*thread
	stop    atomic.Bool // no more calls
	abort   atomic.Bool // no waiting for replies either
}

// Run makes the source's calls. If ctx ends, what has been done so far is the
// result, marked Partial. An error means that there is no result.
func Run(ctx context.Context, o Options) (Result, error) {
	r := &run{o: &o}
	defer r.close()
	if err := r.connect(ctx); err != nil {
		return Result{}, err
	}
	if o.Begin != nil {
		o.Begin()
	}
	r.began = time.Now()
	stopWatch := r.watch(ctx)
	errs := make(chan error, len(r.threads))
	for _, t := range r.threads {
		go func() {
			err := t.loop()
			if err != nil {
				r.abort.Store(true)
			}
			errs <- err
		}()
	}
	var failed error
	for range r.threads {
		if err := <-errs; err != nil && (failed == nil || errors.Is(failed, errAborted)) {
			failed = err
		}
	}
	elapsed := time.Since(r.began)
	stopWatch()
	if o.End != nil {
		o.End()
	}
	if failed != nil && !errors.Is(failed, errAborted) {
		return Result{}, failed
	}
	res := r.result()
	res.Elapsed, res.Partial = elapsed, failed != nil
	return res, nil
}

func (r *run) connect(ctx context.Context) error {
	n := r.o.Threads
	if n == 0 {
		n = max(1, runtime.NumCPU()/2)
	}
	for range min(n, r.o.Conns) {
		t, err := newThread(r)
		if err != nil {
			return err
		}
		r.threads = append(r.threads, t)
	}
	for i := range r.o.Conns {
		fd, err := r.o.Dial(ctx)
		if err != nil {
			return err
		}
		t := r.threads[i%len(r.threads)]
		if err := t.add(newConn(fd, t, r.o)); err != nil {
			return err
		}
	}
	return nil
}

// watch ends the run at its time limit or with ctx, and reports progress.
func (r *run) watch(ctx context.Context) (stop func()) {
	r.progress()
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		t := time.NewTicker(200 * time.Millisecond)
		defer t.Stop()
		var limit <-chan time.Time
		if r.o.Time > 0 {
			timer := time.NewTimer(r.o.Time)
			defer timer.Stop()
			limit = timer.C
		}
		for interrupted := ctx.Done(); ; {
			select {
			case <-done:
				return
			case <-limit:
				r.stop.Store(true)
			case <-interrupted:
				r.abort.Store(true)
				interrupted = nil
			case <-t.C:
				r.progress()
			}
		}
	})
	return func() {
		close(done)
		wg.Wait()
		r.progress()
	}
}

func (r *run) progress() {
	if r.o.Progress == nil {
		return
	}
	var calls, bytes uint64
	for _, t := range r.threads {
		calls += t.shownCalls.Load()
		bytes += t.shownBytes.Load()
	}
	r.o.Progress(calls, bytes)
}

func (r *run) result() (res Result) {
	res.Latency = newHistogram()
	for _, t := range r.threads {
		res.Calls += t.calls
		res.Bytes += t.bytes
		res.Latency.Merge(t.latency)
	}
	return res
}

func (r *run) close() {
	for _, t := range r.threads {
		t.close()
	}
}
