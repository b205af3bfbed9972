package uring_test

import (
	"bytes"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/pprof"
	"testing"
	"time"
)

// TestMain fails the run if a test leaves a descriptor or a goroutine behind.
func TestMain(m *testing.M) {
	startRuntime()
	fds, goroutines := openFDs(), runtime.NumGoroutine()
	code := m.Run()
	if code == 0 {
		if err := leaked(fds, goroutines); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// leaked gives what is on its way out a few seconds.
func leaked(fds, goroutines int) error {
	var err error
	for range 200 {
		runtime.GC() // closes os.Files nobody has
		nf, ng := openFDs(), runtime.NumGoroutine()
		if nf <= fds && ng <= goroutines {
			return nil
		}
		var stacks bytes.Buffer
		pprof.Lookup("goroutine").WriteTo(&stacks, 1)
		err = fmt.Errorf("leak: descriptors %d, before %d: %v\ngoroutines %d, before %d:\n%s",
			nf, fds, listFDs(), ng, goroutines, &stacks)
		time.Sleep(10 * time.Millisecond)
	}
	return err
}

// startRuntime makes the runtime open its own descriptors and start its signal
// goroutine, which fuzzing needs. It keeps both.
func startRuntime() {
	c := make(chan os.Signal, 1)
	signal.Notify(c, os.Interrupt)
	signal.Stop(c)
	if r, w, err := os.Pipe(); err == nil {
		r.Close()
		w.Close()
	}
}

func openFDs() int { return len(listFDs()) }

func listFDs() []string {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil
	}
	var fds []string
	for _, e := range entries {
		link, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err != nil {
			continue // the directory itself
		}
		fds = append(fds, e.Name()+" "+link)
	}
	return fds
}
