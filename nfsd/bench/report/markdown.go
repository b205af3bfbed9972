package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"sluice/nfsd/bench"
)

// markdown writes the report. It never fails but for w.
func (r *Report) markdown(w io.Writer, t *Table, pictures []picture) error {
	var b strings.Builder
	r.head(&b)
	r.method(&b)
	local := func(s bench.Settings) bool { return s.Where == "" }
	section(&b, t, "Reads from the page cache", pictures, func(s bench.Settings) bool {
		return local(s) && s.Op == bench.OpRead && !s.Cold
	})
	section(&b, t, "Cold reads", pictures, func(s bench.Settings) bool { return local(s) && s.Op == bench.OpRead && s.Cold })
	section(&b, t, "Small calls", pictures, func(s bench.Settings) bool { return local(s) && s.Op != bench.OpRead })
	for _, where := range places(t) {
		section(&b, t, where, pictures, func(s bench.Settings) bool { return s.Where == where })
	}
	clientSection(&b, t)
	r.shortcomings(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

func places(t *Table) (all []string) {
	for _, s := range t.Workloads {
		if s.Where != "" && !slices.Contains(all, s.Where) {
			all = append(all, s.Where)
		}
	}
	return all
}

func (r *Report) head(b *strings.Builder) {
	fmt.Fprintf(b, "# Benchmark of %s\n\n", r.Date.UTC().Format(time.DateOnly))
	if r.Partial {
		b.WriteString("**Interrupted: this is a part of what was to be measured.**\n\n")
	}
	m := r.Machine
	fmt.Fprintf(b, "| | |\n|---|---|\n")
	row := func(name, format string, a ...any) { fmt.Fprintf(b, "| %s | %s |\n", name, fmt.Sprintf(format, a...)) }
	row("command", "`%s`", r.Command)
	row("made", "%s, in %s", r.Date.UTC().Format("2006-01-02 15:04 UTC"), r.Took.Round(time.Second))
	row("machine", "%d × %s, %d MiB of memory", m.CPUs, m.CPU, m.MemoryMiB)
	row("system", "%s, Linux %s, TCP with %s by default", m.OS, m.Kernel, m.Congestion)
	row("load before", "%s (averages of 1, 5, 15 minutes)", m.Load)
	if r.FileSize > 0 {
		row("file", "%d MiB on %s", r.FileSize>>20, r.Disk)
	}
	for i := 0; i < len(r.Versions); {
		var peers []string
		version := r.Versions[i].Version
		for ; i < len(r.Versions) && r.Versions[i].Version == version; i++ {
			peers = append(peers, r.Versions[i].Peer)
		}
		row(strings.Join(peers, ", "), "%s", version)
	}
	b.WriteString("\n")
}

func (r *Report) method(b *strings.Builder) {
	fmt.Fprintf(b, `One client, one file, all over loopback. Every workload runs on every peer in turn, for
%[2]v, after a warm-up; %[1]d times, in alternating order. Figures are medians of the rounds, the
spread is from the least to the greatest, × is a ratio of medians. GB are 10⁹ bytes. CPU is
the user and system time of the peer's threads; what the kernel does in interrupts is not in it.
"rest" is what the rest of the machine used meanwhile, in percent of one CPU: noise, and
interrupts. A peer that made an error has no figure.

`, r.Rounds, r.Time)
	for _, n := range r.Notes {
		b.WriteString(n + "\n\n")
	}
}

// section is a heading, the pictures that belong to it, and a table for each
// workload that pick picks.
func section(b *strings.Builder, t *Table, title string, pictures []picture, pick func(bench.Settings) bool) {
	workloads := t.Where(pick)
	if len(workloads) == 0 {
		return
	}
	fmt.Fprintf(b, "## %s\n\n", title)
	for _, p := range pictures {
		if pick(p.settings) {
			fmt.Fprintf(b, "![%s](%s)\n\n", p.title, p.file)
		}
	}
	for _, s := range workloads {
		workloadTable(b, t, s)
	}
}

func workloadTable(b *strings.Builder, t *Table, s bench.Settings) {
	var rows [][]string
	base, ratio := t.base(s), "×"
	if base != nil {
		ratio += " " + base.Peer
	}
	units := figures{}
	for _, peer := range t.Peers {
		c := t.Cell(s, peer)
		if c == nil || peer == NullPeer {
			continue
		}
		f := newFigures(c, base)
		units = f
		rows = append(rows, []string{peer, f.rate, f.spread, f.ratio, f.cost, f.costRatio, f.p50, f.p99, f.disk, f.clientCost, f.rest})
	}
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(b, "**%s**\n\n", s)
	header := []string{"peer", units.rateUnit, "spread", ratio, units.costUnit, ratio, "p50", "p99", "disk", "client " + units.costUnit, "rest %"}
	if !s.Cold {
		header = slices.Delete(header, 8, 9)
		for i := range rows {
			rows[i] = slices.Delete(rows[i], 8, 9)
		}
	}
	table(b, header, rows)
}

// table leaves out columns that are empty in all rows.
func table(b *strings.Builder, header []string, rows [][]string) {
	for col := len(header) - 1; col > 0; col-- {
		if !slices.ContainsFunc(rows, func(r []string) bool { return r[col] != "" }) {
			header = slices.Delete(header, col, col+1)
			for i := range rows {
				rows[i] = slices.Delete(rows[i], col, col+1)
			}
		}
	}
	fmt.Fprintf(b, "| %s |\n|---|%s\n", strings.Join(header, " | "), strings.Repeat("---:|", len(header)-1))
	for _, r := range rows {
		fmt.Fprintf(b, "| %s |\n", strings.Join(r, " | "))
	}
	b.WriteString("\n")
}

// clientSection shows that the client is cheaper than what it measures.
func clientSection(b *strings.Builder, t *Table) {
	var rows [][]string
	for _, s := range t.Workloads {
		null := t.Cell(s, NullPeer)
		if null == nil {
			continue
		}
		f := newFigures(null, nil)
		least, peer := cheapest(t, s)
		rows = append(rows, []string{s.String(), f.rate + " " + f.rateUnit, f.clientCost, f.cost, fmt.Sprintf("%s (%s)", least, peer), f.costUnit})
	}
	if len(rows) == 0 {
		return
	}
	b.WriteString("## What the client costs\n\nAgainst a server that answers with as little work as there can be, from no file.\n\n")
	table(b, []string{"workload", "rate", "client", NullPeer, "cheapest server", "unit"}, rows)
}

func cheapest(t *Table, s bench.Settings) (cost, peer string) {
	least := 0.0
	for _, p := range t.Peers {
		c := t.Cell(s, p)
		if c == nil || p == NullPeer || len(c.ServerCost()) == 0 {
			continue
		}
		if v := c.ServerCost().Median(); peer == "" || v < least {
			least, peer = v, p
		}
	}
	return number(least), peer
}

func (r *Report) shortcomings(b *strings.Builder) {
	if len(r.Missing)+len(r.Failures) == 0 {
		return
	}
	b.WriteString("## Missing and failed\n\n")
	for _, m := range r.Missing {
		fmt.Fprintf(b, "- %s: missing: %s\n", m.Peer, m.Reason)
	}
	for _, f := range r.Failures {
		fmt.Fprintf(b, "- %s: %s: failed: %s\n", f.Peer, f.Workload, f.Reason)
	}
	b.WriteString("\n")
}
