package main

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// Bounds of what a server holds, whatever peers do to it. They are far above
// what it needs and far below what would hurt a machine.
const (
	// memoryBound is the most anonymous memory in KiB of a server with few
	// connections; connKiB is what each connection may add to it.
	memoryBound = 128 << 10
	connKiB     = 8
)

// gauge is what a process holds.
type gauge struct {
	anon        int // memory that is its own, in KiB (RssAnon)
	peak        int // most memory at a time, in KiB (VmHWM), of which about 15 MiB are the program
	descriptors int
	threads     int
}

func (s *server) gauge() (g gauge) {
	pid := s.pid.Load()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		s.t.errorf("the server has gone: %w", err)
		return g
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		switch {
		case len(f) < 2:
		case f[0] == "RssAnon:":
			g.anon = atoi(f[1])
		case f[0] == "VmHWM:":
			g.peak = atoi(f[1])
		case f[0] == "Threads:":
			g.threads = atoi(f[1])
		}
	}
	d, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	g.descriptors = len(d)
	return g
}

// checkMemory compares the server's peak with the bound.
func (s *server) checkMemory(conns int) {
	g := s.gauge()
	limit := memoryBound + conns*connKiB
	if raceEnabled {
		limit *= 4 // the detector's shadow memory
	}
	if g.peak > limit {
		s.t.errorf("the server has had %d KiB, more than the bound of %d", g.peak, limit)
	}
	s.t.notef("peak %d MiB", g.peak>>10)
}

// checkSettled waits until the server holds no more than before, but for a few
// idle pipes and threads that it keeps.
func (s *server) checkSettled(before gauge) {
	const pipes, threads = 2 * 64, 16
	var g gauge
	ok := eventually(settleLimit, func() bool {
		g = s.gauge()
		return g.descriptors <= before.descriptors+pipes && g.threads <= before.threads+threads
	})
	if !ok {
		s.t.errorf("%d descriptors and %d threads are left, %d and %d before", g.descriptors, g.threads, before.descriptors, before.threads)
	}
}

// settleLimit is how long idle files, pipes and threads may take to be closed.
const settleLimit = 40 * time.Second
