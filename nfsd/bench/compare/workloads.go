package compare

import (
	"slices"

	"sluice/nfsd/bench"
)

// Workload is what is measured on every peer.
type Workload struct{ bench.Settings }

// usual is how many connections and calls the workloads have that do not vary them;
// four connections are what administrators give nconnect= on a fast network.
const (
	usualConns = 4
	usualDepth = 8
)

var usualSizes = []int{4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20}

func read(rsize, conns, depth int) bench.Settings {
	return bench.Settings{Op: bench.OpRead, RSize: rsize, Conns: conns, Depth: depth}
}

// Workloads are those of a report: reads by size and by connections, one by one,
// cold, and small calls.
func Workloads() (all []Workload) {
	add := func(s bench.Settings) {
		if !slices.Contains(all, Workload{s}) {
			all = append(all, Workload{s})
		}
	}
	for _, size := range usualSizes {
		add(read(size, usualConns, usualDepth))
	}
	for _, conns := range []int{1, 2, 4, 8, 16} {
		add(read(1<<20, conns, usualDepth))
	}
	add(read(64<<10, 1, 1))
	for _, size := range []int{64 << 10, 1 << 20} {
		s := read(size, usualConns, usualDepth)
		s.Cold = true
		add(s)
	}
	for _, op := range bench.MetaOps {
		add(bench.Settings{Op: op, Conns: usualConns, Depth: usualDepth})
	}
	add(bench.Settings{Op: "getattr", Conns: 64, Depth: 1})
	return all
}

// Grid are reads of every size over every number of connections.
func Grid(sizes, conns []int, depth int, cold bool) (all []Workload) {
	for _, size := range sizes {
		for _, n := range conns {
			s := read(size, n, depth)
			s.Cold = cold
			all = append(all, Workload{s})
		}
	}
	return all
}

// String is for progress and failures.
func (w Workload) String() string { return w.Settings.String() }
