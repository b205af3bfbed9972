package report

import (
	"fmt"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"sluice/nfsd/bench"
)

// latencies draws the percentiles of the warm reads with the fewest calls under way:
// with many, the latency is that of the queue that the client keeps.
func latencies(t *Table) (*plot.Plot, picture, error) {
	var which *bench.Settings
	for _, s := range t.Where(warmReads) {
		if which == nil || s.Conns*s.Depth < which.Conns*which.Depth {
			which = &s
		}
	}
	if which == nil {
		return nil, picture{}, nil
	}
	pic := picture{"latency.svg", "Latency: " + which.String(), *which}
	p := newPlot(pic.title, "percentile", "µs")
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	percentiles := []struct {
		name string
		get  func(bench.Latency) float64
	}{
		{"p50", func(l bench.Latency) float64 { return l.P50 }}, {"p90", func(l bench.Latency) float64 { return l.P90 }},
		{"p99", func(l bench.Latency) float64 { return l.P99 }}, {"p99.9", func(l bench.Latency) float64 { return l.P999 }},
		{"max", func(l bench.Latency) float64 { return l.Max }},
	}
	var names []string
	for _, q := range percentiles {
		names = append(names, q.name)
	}
	for i, peer := range servers(t) {
		c := t.Cell(*which, peer)
		if c == nil {
			continue
		}
		var pts points
		for x, q := range percentiles {
			v := c.sample(func(r *bench.Result) float64 { return q.get(r.Latency) })
			if m := v.Median(); v.Min() > 0 {
				pts.XYs = append(pts.XYs, plotter.XY{X: float64(x), Y: m})
				pts.YErrors = append(pts.YErrors, struct{ Low, High float64 }{m - v.Min(), v.Max() - m})
			}
		}
		if err := pts.add(p, peer, i); err != nil {
			return nil, pic, err
		}
	}
	nominal(p, names)
	p.Y.Max *= 4 // room for the legend
	return p, pic, nil
}

// coldAndWarm draws bars for a cold workload and for the same one warm.
func coldAndWarm(t *Table) (*plot.Plot, picture, error) {
	warm, cold, ok := coldPair(t)
	if !ok {
		return nil, picture{}, nil
	}
	pic := picture{"cold-and-warm.svg", "Cold and warm: " + warm.String(), cold}
	p := newPlot(pic.title, "", "GB/s")
	const width = 14 // points
	var names []string
	var values [2]plotter.Values
	for _, peer := range servers(t) {
		w, c := t.Cell(warm, peer), t.Cell(cold, peer)
		if w == nil || c == nil {
			continue
		}
		names = append(names, peer)
		values[0] = append(values[0], c.Rate().Median()/1e9)
		values[1] = append(values[1], w.Rate().Median()/1e9)
	}
	if len(names) == 0 {
		return nil, picture{}, nil
	}
	for i, name := range []string{"cold", "page cache"} {
		bars, err := plotter.NewBarChart(values[i], vg.Points(width))
		if err != nil {
			return nil, pic, fmt.Errorf("%s: %w", pic.file, err)
		}
		bars.Color, bars.LineStyle.Width = colours[i], 0
		bars.Offset = vg.Points(float64(width * (2*i - 1) / 2))
		p.Add(bars)
		p.Legend.Add(name, bars)
	}
	nominal(p, names)
	p.Legend.Left = false
	p.Y.Min = 0
	p.Y.Max *= 1.2 // room for the legend
	return p, pic, nil
}

// nominal labels x = 0, 1, …, with room for the outermost labels.
func nominal(p *plot.Plot, names []string) {
	p.NominalX(names...)
	p.X.Min, p.X.Max = -0.5, float64(len(names))-0.5
}

// coldPair is the last cold workload that was also run warm.
func coldPair(t *Table) (warm, cold bench.Settings, ok bool) {
	for _, c := range t.Workloads {
		w := c
		w.Cold = false
		if c.Cold && len(t.cells[w]) > 0 {
			warm, cold, ok = w, c, true
		}
	}
	return warm, cold, ok
}
