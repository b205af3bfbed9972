package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// fault is one thing that can go wrong.
type fault struct {
	area, name string
	run        func(*trial)
}

// suite is all faults, in the order of the report.
func suite() []fault {
	var all []fault
	for _, part := range [][]fault{restartFaults, serviceFaults, kernelFaults, peerFaults, fieldFaults, handleFaults, storageFaults,
		fileFaults, mountFaults, scarceFaults, escapeFaults, soakFaults} {
		all = append(all, part...)
	}
	return all
}

// trial is one go at a fault.
type trial struct {
	// long is how long to go on, where that is a matter of choice.
	long time.Duration
	rnd  *rand.Rand
	dir  string // of its own
	// tried counts what the fault is about: kills, bad records, forged handles.
	tried atomic.Int64
	// checked counts the bytes that readers have compared meanwhile.
	checked atomic.Int64

	mu       sync.Mutex
	errs     []error
	notes    []string
	cleanups []func()
}

// stop ends a trial from within.
type stop struct{ skipped string }

func (t *trial) errorf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.errs) < 20 { // the first ones tell
		t.errs = append(t.errs, fmt.Errorf(format, args...))
	}
}

// fatalf may be called on the goroutine of the trial only.
func (t *trial) fatalf(format string, args ...any) {
	t.errorf(format, args...)
	panic(stop{})
}

func (t *trial) must(err error) {
	if err != nil {
		t.fatalf("%w", err)
	}
}

// skipf ends a trial that this machine cannot do.
func (t *trial) skipf(format string, args ...any) { panic(stop{fmt.Sprintf(format, args...)}) }

// notef adds a figure to the report.
func (t *trial) notef(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.notes = append(t.notes, fmt.Sprintf(format, args...))
}

func (t *trial) failed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.errs) > 0
}

// after has f called when the trial ends, last come first.
func (t *trial) after(f func()) { t.cleanups = append(t.cleanups, f) }

// until returns a context for the time that the trial should take.
func (t *trial) until() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), t.long)
	t.after(cancel)
	return ctx
}

// get is must for calls with a result.
func get[T any](v T, err error) func(*trial) T {
	return func(t *trial) T {
		t.must(err)
		return v
	}
}

// outcome is what came of the trials of a fault.
type outcome struct {
	fault
	trials, tried, checked int64
	took                   time.Duration
	errs                   []error
	notes                  []string
	skipped                string
}

// try makes one trial and adds it to the outcome.
func (o *outcome) try(long time.Duration, seed uint64) {
	begin := time.Now()
	t := &trial{long: long, rnd: rand.New(rand.NewPCG(seed, 0))}
	o.skipped = t.run(o.fault)
	o.trials++
	o.tried += t.tried.Load()
	o.checked += t.checked.Load()
	o.took += time.Since(begin)
	o.errs = append(o.errs, t.errs...)
	o.notes = t.notes
}

func (t *trial) run(f fault) (skipped string) {
	defer func() {
		for _, c := range t.cleanups {
			defer c() // in reverse, each even if another fails
		}
	}()
	defer func() {
		switch r := recover().(type) {
		case nil:
		case stop:
			skipped = r.skipped
		default:
			t.errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	dir, err := os.MkdirTemp(scratch, "trial-")
	t.must(err)
	t.after(func() { os.RemoveAll(dir) })
	t.must(os.Chmod(dir, 0o755))
	t.dir = dir
	f.run(t)
	return ""
}

func (t *trial) path(names ...string) string {
	return filepath.Join(append([]string{t.dir}, names...)...)
}

// err joins what went wrong.
func (o *outcome) err() error { return errors.Join(o.errs...) }

// report prints a table in Markdown.
func report(w io.Writer, all []*outcome) {
	fmt.Fprintln(w, "| area | fault | tried | bytes checked | outcome |")
	fmt.Fprintln(w, "|---|---|---:|---:|---|")
	var tried, checked int64
	for _, o := range all {
		result := "right"
		switch {
		case len(o.errs) > 0:
			result = fmt.Sprintf("**%d wrong**", len(o.errs))
		case o.skipped != "":
			result = "not tried: " + o.skipped
		case o.trials == 0:
			result = "not tried"
		}
		if len(o.notes) > 0 {
			result += "; " + strings.Join(o.notes, ", ")
		}
		fmt.Fprintf(w, "| %s | %s | %d | %s | %s |\n", o.area, o.name, o.tried, bytesText(o.checked), result)
		tried, checked = tried+o.tried, checked+o.checked
	}
	fmt.Fprintf(w, "| | **all** | %d | %s | |\n", tried, bytesText(checked))
}

func bytesText(n int64) string {
	switch {
	case n == 0:
		return ""
	case n < 10<<30:
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d GiB", n>>30)
}
