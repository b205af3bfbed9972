package report

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sluice/nfsd/bench"
	"sluice/nfsd/bench/compare"
	"sluice/nfsd/bench/host"
)

// NullPeer is the name of a peer that shows what the client costs. It is told apart
// from servers.
const NullPeer = "nullserver"

// Report is a comparison with what a reader needs to repeat it.
type Report struct {
	compare.Outcome
	Command  string // line
	Date     time.Time
	Took     time.Duration
	Machine  host.Machine
	FileSize int64 // bytes
	Disk     string
	Rounds   int
	Time     time.Duration // of a run
	// Notes are further remarks, a paragraph each.
	Notes []string
}

// Write makes dir and in it report.md, its pictures, results.jsonl and
// results.bench.
func (r *Report) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	t := NewTable(r.Results)
	pictures, err := drawAll(t, dir)
	if err != nil {
		return err
	}
	return errors.Join(
		write(dir, "report.md", func(w io.Writer) error { return r.markdown(w, t, pictures) }),
		write(dir, "results.jsonl", func(w io.Writer) error { return JSON(w, r.Results) }),
		write(dir, "results.bench", func(w io.Writer) error { return Bench(w, r.Results, r.Machine.CPU) }))
}

func write(dir, name string, f func(io.Writer) error) error {
	var b bytes.Buffer
	if err := f(&b); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return os.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o644)
}

// Summary prints the medians of a comparison at a terminal.
func Summary(w io.Writer, out *compare.Outcome) {
	t := NewTable(out.Results)
	where := ""
	for _, s := range t.Workloads {
		if s.Where != where {
			where = s.Where
			fmt.Fprintf(w, "\n%s\n", where)
		}
		fmt.Fprintln(w, s)
		for _, peer := range t.Peers {
			if c := t.Cell(s, peer); c != nil {
				fmt.Fprintf(w, "  %-16s %s\n", peer, line(c, t.base(s)))
			}
		}
	}
	for _, m := range out.Missing {
		fmt.Fprintf(w, "missing: %s: %s\n", m.Peer, m.Reason)
	}
	for _, f := range out.Failures {
		fmt.Fprintf(w, "FAILED: %s: %s: %s\n", f.Peer, f.Workload, f.Reason)
	}
	if out.Partial {
		fmt.Fprintln(w, "INTERRUPTED: this is a part of what was asked for")
	}
}

func line(c, base *Cell) string {
	f := newFigures(c, base)
	s := fmt.Sprintf("%s %s (%s)", f.rate, f.rateUnit, f.spread)
	if f.ratio != "" {
		s += fmt.Sprintf("  %s x %s", f.ratio, base.Peer)
	}
	if f.cost != "" {
		s += fmt.Sprintf("  %s %s", f.cost, f.costUnit)
	}
	return s
}

// figures are a cell's, formatted. Ratios are of medians; "" where there is no base.
type figures struct {
	rate, rateUnit, spread, ratio    string
	cost, costUnit, costRatio        string
	clientCost, p50, p99, rest, disk string
}

func newFigures(c, base *Cell) (f figures) {
	scale := 1e9
	f.rateUnit, f.costUnit = "GB/s", "CPU ms/GB"
	if c.Settings.Op != bench.OpRead {
		f.rateUnit, f.costUnit, scale = "thousand calls/s", "CPU µs/call", 1e3
	}
	r := c.Rate()
	f.rate = number(r.Median() / scale)
	f.spread = number(r.Min()/scale) + "–" + number(r.Max()/scale)
	if cost := c.ServerCost(); cost != nil {
		f.cost = number(cost.Median())
	}
	if c.Settings.Where == "" {
		f.clientCost = number(c.ClientCost().Median())
		f.rest = fmt.Sprintf("%.0f", c.Rest().Median())
	}
	latency := func(get func(bench.Latency) float64) string {
		us := c.sample(func(r *bench.Result) float64 { return get(r.Latency) }).Median()
		if us == 0 {
			return "" // the client does not tell
		}
		return micros(us)
	}
	f.p50 = latency(func(l bench.Latency) float64 { return l.P50 })
	f.p99 = latency(func(l bench.Latency) float64 { return l.P99 })
	f.disk = diskFigures(c)
	if base == nil {
		return f
	}
	f.ratio = fmt.Sprintf("%.2f", r.Median()/base.Rate().Median())
	if own, other := c.ServerCost(), base.ServerCost(); own != nil && other != nil && other.Median() > 0 {
		f.costRatio = fmt.Sprintf("%.2f", own.Median()/other.Median())
	}
	return f
}

// number has two or three digits that mean something.
func number(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	case v >= 0.1 || v <= 0:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.2g", v)
}

func diskFigures(c *Cell) string {
	for i := range c.Rounds {
		if c.Rounds[i].Disk == nil {
			return ""
		}
	}
	get := func(f func(*host.DiskUse) float64) float64 {
		return c.sample(func(r *bench.Result) float64 { return f(r.Disk) }).Median()
	}
	return fmt.Sprintf("%.0f/s of %.0f KiB, %.0f %%", get(func(d *host.DiskUse) float64 { return d.ReadsPerSecond }),
		get(func(d *host.DiskUse) float64 { return d.RequestKiB }), get(func(d *host.DiskUse) float64 { return d.BusyPercent }))
}

// New is a report on what came of a plan, at the machine as described before it was
// run.
func New(p *compare.Plan, out compare.Outcome, m host.Machine, began time.Time) *Report {
	r := &Report{Outcome: out, Command: commandLine(os.Args), Date: began, Took: time.Since(began), Machine: m,
		Rounds: p.Rounds, Time: p.Time, Disk: "a file system without a block device"}
	if st, err := os.Stat(p.File); err == nil {
		r.FileSize = st.Size()
	}
	if d, err := host.DiskOf(p.File); err == nil {
		r.Disk = d.Name
	}
	return r
}

// commandLine is one to paste into a shell.
func commandLine(args []string) string {
	var b strings.Builder
	for i, a := range args {
		if i > 0 {
			b.WriteByte(' ')
		}
		if strings.ContainsAny(a, " \t\n\"'$&;|<>()*?\\`") {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		b.WriteString(a)
	}
	return b.String()
}
