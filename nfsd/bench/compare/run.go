package compare

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"sluice/nfsd/bench"
	"sluice/nfsd/bench/client"
)

// Plan is a comparison.
type Plan struct {
	Peers     []Peer
	Workloads []Workload
	// File is the local file that the peers serve.
	File string
	// Rounds is how many times each workload is run on each peer.
	Rounds int
	// Time is how long a run takes. Cold reads end with the file if that is sooner.
	Time time.Duration
	// Timeout is how long a reply may take.
	Timeout time.Duration
	Threads int
	// Say, if set, gets a line for each step.
	Say func(format string, a ...any)
}

// Outcome is what came of a Plan.
type Outcome struct {
	Results  []bench.Result
	Versions []Version
	Missing  []Missing
	Failures []Failure
	// Partial says that the comparison was interrupted.
	Partial bool
}

// Version is what a peer says of itself.
type Version struct{ Peer, Version string }

// Missing is a peer that could not be had.
type Missing struct{ Peer, Reason string }

// Failure is a workload that went wrong on a peer, which has no figure for it.
type Failure struct {
	Peer     string
	Workload bench.Settings
	Reason   string
}

// warmUp is how long each peer runs each workload before it counts.
const warmUp = 150 * time.Millisecond

// contestant is a peer that takes part.
type contestant struct {
	name string
	skip func(bench.Settings) bool
	*Running
}

// Run carries a plan out. An error means that there was nothing to measure.
func Run(ctx context.Context, p Plan) (Outcome, error) {
	var out Outcome
	if p.Say == nil {
		p.Say = func(string, ...any) {}
	}
	dir, err := os.MkdirTemp("", "sluice-bench-")
	if err != nil {
		return out, err
	}
	defer os.RemoveAll(dir)
	running, err := p.start(ctx, dir, &out)
	defer func() {
		for _, c := range running {
			c.Stop()
		}
	}()
	if err != nil {
		return out, err
	}
	for i, w := range p.Workloads {
		p.Say("%d of %d: %s", i+1, len(p.Workloads), w)
		p.runWorkload(ctx, w, running, &out)
		if ctx.Err() != nil {
			out.Partial = true
			break
		}
	}
	return out, nil
}

func (p *Plan) start(ctx context.Context, dir string, out *Outcome) (running []contestant, err error) {
	for i, peer := range p.Peers {
		own := filepath.Join(dir, fmt.Sprint(i))
		if err := os.Mkdir(own, 0o755); err != nil {
			return running, err
		}
		r, err := peer.Start(ctx, p.File, own)
		if ctx.Err() != nil {
			return running, ctx.Err()
		}
		if err != nil {
			p.Say("missing: %s: %v", peer.Name, err)
			out.Missing = append(out.Missing, Missing{peer.Name, err.Error()})
			continue
		}
		p.Say("started: %s at %s", peer.Name, r.Target.URL())
		if r.Version != "" {
			out.Versions = append(out.Versions, Version{peer.Name, r.Version})
		}
		running = append(running, contestant{peer.Name, peer.Skip, r})
	}
	if len(running) == 0 {
		return nil, errors.New("no peer is to be had")
	}
	return running, nil
}

// runWorkload runs a workload on all peers in turn: forth in one round, back in the
// next, so that none always follows the same other.
func (p *Plan) runWorkload(ctx context.Context, w Workload, peers []contestant, out *Outcome) {
	failed := make(map[string]bool)
	fail := func(c contestant, err error) {
		p.Say("  FAILED %s: %v", c.name, err)
		failed[c.name] = true
		out.Failures = append(out.Failures, Failure{c.name, w.Settings, err.Error()})
	}
	peers = slices.DeleteFunc(slices.Clone(peers), func(c contestant) bool { return c.skip != nil && c.skip(w.Settings) })
	if !w.Cold {
		p.fillCache(ctx)
		for _, c := range peers {
			if _, err := p.measure(ctx, w, c.Target, warmUp); err != nil && ctx.Err() == nil {
				fail(c, err)
			}
		}
	}
	var got []bench.Result
	for round := 1; round <= p.Rounds; round++ {
		for _, c := range peers {
			if failed[c.name] {
				continue
			}
			r, err := p.measure(ctx, w, c.Target, p.Time)
			switch {
			case ctx.Err() != nil:
				return // what is not complete is not comparable
			case err != nil:
				fail(c, err)
			default:
				r.Peer, r.Round = c.name, round
				got = append(got, r)
			}
		}
		slices.Reverse(peers) // a clone
	}
	// A peer that failed in one round has no figure from the others either.
	got = slices.DeleteFunc(got, func(r bench.Result) bool { return failed[r.Peer] })
	out.Results = append(out.Results, got...)
}

// fillCache reads the file, so that all of it is in the page cache if there is room.
func (p *Plan) fillCache(ctx context.Context) {
	f, err := os.Open(p.File)
	if err != nil {
		return // it is elsewhere
	}
	defer f.Close()
	buf := make([]byte, 1<<20)
	for err == nil && ctx.Err() == nil {
		_, err = f.Read(buf)
	}
}

func (p *Plan) measure(ctx context.Context, w Workload, t client.Target, limit time.Duration) (bench.Result, error) {
	o := bench.Options{Settings: w.Settings, Targets: []client.Target{t}, Time: limit, Timeout: p.Timeout, Threads: p.Threads}
	if w.Op != bench.OpRead {
		return bench.Meta(ctx, o)
	}
	if w.Cold {
		// Disks are slower and vary more than memory.
		o.Loops, o.Time = 1, 3*limit
	}
	return bench.Read(ctx, o)
}
