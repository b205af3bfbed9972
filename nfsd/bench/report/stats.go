package report

import (
	"slices"

	"sluice/nfsd/bench"
	"sluice/nfsd/bench/compare"
)

// Sample are the values of one figure in several rounds.
type Sample []float64

// Median is the middle value, or the mean of the two in the middle; 0 without any.
func (s Sample) Median() float64 {
	if len(s) == 0 {
		return 0
	}
	v := slices.Sorted(slices.Values(s))
	n := len(v)
	return (v[(n-1)/2] + v[n/2]) / 2
}

// Min is the least value; 0 without any.
func (s Sample) Min() float64 {
	if len(s) == 0 {
		return 0
	}
	return slices.Min(s)
}

// Max is the greatest value; 0 without any.
func (s Sample) Max() float64 {
	if len(s) == 0 {
		return 0
	}
	return slices.Max(s)
}

// Cell is what one peer did under one workload, in all rounds.
type Cell struct {
	Peer     string
	Settings bench.Settings
	Rounds   []bench.Result
}

func (c *Cell) sample(f func(*bench.Result) float64) (s Sample) {
	for i := range c.Rounds {
		s = append(s, f(&c.Rounds[i]))
	}
	return s
}

// Rate is in bytes a second, or calls a second.
func (c *Cell) Rate() Sample { return c.sample((*bench.Result).Rate) }

// ServerCost is CPU time by work as in Result.Cost; no values if it is not known.
func (c *Cell) ServerCost() Sample {
	for i := range c.Rounds {
		if c.Rounds[i].Server == nil {
			return nil
		}
	}
	return c.sample(func(r *bench.Result) float64 { return r.Cost(r.Server.Total()) })
}

// ClientCost is like ServerCost.
func (c *Cell) ClientCost() Sample {
	return c.sample(func(r *bench.Result) float64 { return r.Cost(r.ClientCPU) })
}

// Rest is what the rest of the machine used, in percent of a CPU.
func (c *Cell) Rest() Sample {
	return c.sample(func(r *bench.Result) float64 { return 100 * r.RestCPU / r.Seconds })
}

// Table are results by workload and peer, in the order in which they came.
type Table struct {
	Workloads []bench.Settings
	Peers     []string
	cells     map[bench.Settings]map[string]*Cell
}

// NewTable groups results. Partial ones are left out.
func NewTable(results []bench.Result) *Table {
	t := &Table{cells: make(map[bench.Settings]map[string]*Cell)}
	for _, r := range results {
		if r.Partial || r.Seconds <= 0 {
			continue
		}
		if t.cells[r.Settings] == nil {
			t.Workloads = append(t.Workloads, r.Settings)
			t.cells[r.Settings] = make(map[string]*Cell)
		}
		if !slices.Contains(t.Peers, r.Peer) {
			t.Peers = append(t.Peers, r.Peer)
		}
		c := t.cells[r.Settings][r.Peer]
		if c == nil {
			c = &Cell{Peer: r.Peer, Settings: r.Settings}
			t.cells[r.Settings][r.Peer] = c
		}
		c.Rounds = append(c.Rounds, r)
	}
	return t
}

// Cell is nil if the peer has no figure for the workload.
func (t *Table) Cell(s bench.Settings, peer string) *Cell { return t.cells[s][peer] }

// bases are the peers that ratios refer to: the first of them that took part.
var bases = []string{compare.GaneshaName, "knfsd"}

// base is the cell that ratios refer to; nil if there is none.
func (t *Table) base(s bench.Settings) *Cell {
	for _, peer := range bases {
		if c := t.Cell(s, peer); c != nil {
			return c
		}
	}
	return nil
}

// Where are the workloads that f picks.
func (t *Table) Where(f func(bench.Settings) bool) (some []bench.Settings) {
	for _, s := range t.Workloads {
		if f(s) {
			some = append(some, s)
		}
	}
	return some
}
