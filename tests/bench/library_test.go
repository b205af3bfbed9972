package main

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"sluice/nfsd/bench"
	"sluice/nfsd/bench/client"
)

func libraryOptions(t *testing.T, url string) bench.Options {
	t.Helper()
	target, err := client.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	return bench.Options{Settings: bench.Settings{Conns: 6, Depth: 4, RSize: 4096}, Targets: []client.Target{target}, Loops: 1,
		Threads: 3, Timeout: 30 * time.Second}
}

// Several threads share the work: each byte is read once, and progress never goes
// back nor beyond the end.
func TestThreads(t *testing.T) {
	const size = 1<<20 + 1
	f := &fake{size: size, maxRead: 64 << 10}
	o := libraryOptions(t, f.start(t))
	var last atomic.Uint64
	o.Progress = func(done, total uint64) {
		if before := last.Swap(done); done < before || done > total || total != size {
			t.Errorf("progress %d after %d, of %d", done, before, total)
		}
	}
	r, err := bench.Read(context.Background(), o)
	if err != nil || r.Bytes != size || r.Calls != 257 || r.Partial || last.Load() != size {
		t.Errorf("%+v, %v; progress %d", r, err, last.Load())
	}
}

// A context that ends in the middle leaves what was done so far.
func TestCancel(t *testing.T) {
	f := &fake{size: 1 << 30, maxRead: 64 << 10, delay: time.Millisecond}
	o := libraryOptions(t, f.start(t))
	ctx, cancel := context.WithCancel(context.Background())
	o.Progress = func(done, _ uint64) {
		if done > 0 {
			cancel()
		}
	}
	r, err := bench.Read(ctx, o)
	if err != nil || !r.Partial || r.Bytes == 0 || r.Bytes == 1<<30 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := bench.Read(ctx, o); err == nil {
		t.Error("a context that has ended makes no difference")
	}
}

// A time limit ends a run that has no other end, and it is not partial.
func TestTimeLimit(t *testing.T) {
	f := &fake{size: 1 << 20, maxRead: 64 << 10}
	o := libraryOptions(t, f.start(t))
	o.Loops, o.Time = 0, 300*time.Millisecond
	r, err := bench.Read(context.Background(), o)
	if err != nil || r.Partial || r.Seconds < 0.3 || r.Bytes == 0 {
		t.Errorf("%+v, %v", r, err)
	}
}
