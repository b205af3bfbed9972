package report

import (
	"fmt"
	"image/color"
	"path/filepath"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"sluice/nfsd/bench"
)

const (
	plotWidth  = 7 * vg.Inch
	plotHeight = 4 * vg.Inch
)

// colours are Okabe and Ito's, which people with any colour vision tell apart.
var colours = []color.Color{
	color.RGBA{0, 114, 178, 255}, color.RGBA{230, 159, 0, 255}, color.RGBA{0, 158, 115, 255}, color.RGBA{213, 94, 0, 255},
	color.RGBA{204, 121, 167, 255}, color.RGBA{86, 180, 233, 255}, color.RGBA{0, 0, 0, 255},
}

// picture is one that has been drawn.
type picture struct {
	file, title string
	settings    bench.Settings // of the workloads that it shows, one of them
}

// drawAll draws the pictures for which there are results.
func drawAll(t *Table, dir string) (done []picture, err error) {
	plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"}
	for _, d := range []func(*Table) (*plot.Plot, picture, error){throughputBySize, cpuBySize, byConnections, latencies, coldAndWarm} {
		p, pic, err := d(t)
		if err != nil {
			return nil, err
		}
		if p == nil {
			continue
		}
		if err := p.Save(plotWidth, plotHeight, filepath.Join(dir, pic.file)); err != nil {
			return nil, err
		}
		done = append(done, pic)
	}
	return done, nil
}

// series are the workloads that vary in x alone.
type series struct {
	workloads []bench.Settings
	x         func(bench.Settings) float64
	label     func(bench.Settings) string
}

func warmReads(s bench.Settings) bool {
	return s.Op == bench.OpRead && s.Where == "" && !s.Cold && s.Streams <= 1 && s.Shuffle <= 1
}

// longest is the largest set of warm reads that have the same key and differ in x.
func longest(t *Table, key func(bench.Settings) [2]int, x func(bench.Settings) int, label func(bench.Settings) string) series {
	groups := make(map[[2]int][]bench.Settings)
	var best []bench.Settings
	for _, s := range t.Where(warmReads) {
		g := append(groups[key(s)], s)
		groups[key(s)] = g
		if len(g) > len(best) {
			best = g
		}
	}
	if len(best) < 2 {
		return series{}
	}
	best = slices.Clone(best)
	slices.SortFunc(best, func(a, b bench.Settings) int { return x(a) - x(b) })
	return series{best, func(s bench.Settings) float64 { return float64(x(s)) }, label}
}

func bySize(t *Table) series {
	return longest(t, func(s bench.Settings) [2]int { return [2]int{s.Conns, s.Depth} },
		func(s bench.Settings) int { return s.RSize }, func(s bench.Settings) string { return bench.SizeName(s.RSize) })
}

func throughputBySize(t *Table) (*plot.Plot, picture, error) {
	s := bySize(t)
	if s.workloads == nil {
		return nil, picture{}, nil
	}
	first := s.workloads[0]
	pic := picture{"throughput-by-size.svg", fmt.Sprintf("Throughput by READ size, %d connections", first.Conns), first}
	p := newPlot(pic.title, "READ size", "GB/s")
	return p, pic, s.draw(p, t, func(c *Cell) Sample { return c.Rate().scaled(1e-9) })
}

func cpuBySize(t *Table) (*plot.Plot, picture, error) {
	s := bySize(t)
	if s.workloads == nil {
		return nil, picture{}, nil
	}
	first := s.workloads[0]
	pic := picture{"cpu-by-size.svg", fmt.Sprintf("CPU of the server by READ size, %d connections", first.Conns), first}
	p := newPlot(pic.title, "READ size", "ms of CPU per GB")
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	p.Legend.Left = false // the lines fall
	return p, pic, s.draw(p, t, (*Cell).ServerCost)
}

func byConnections(t *Table) (*plot.Plot, picture, error) {
	s := longest(t, func(s bench.Settings) [2]int { return [2]int{s.RSize, s.Depth} },
		func(s bench.Settings) int { return s.Conns }, func(s bench.Settings) string { return strconv.Itoa(s.Conns) })
	if s.workloads == nil {
		return nil, picture{}, nil
	}
	first := s.workloads[0]
	pic := picture{"throughput-by-connections.svg", fmt.Sprintf("Throughput by connections, %s reads", bench.SizeName(first.RSize)), first}
	p := newPlot(pic.title, "connections", "GB/s")
	return p, pic, s.draw(p, t, func(c *Cell) Sample { return c.Rate().scaled(1e-9) })
}

func newPlot(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.Padding = vg.Points(8)
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.ThumbnailWidth = vg.Points(20)
	p.Add(plotter.NewGrid())
	return p
}

func (s Sample) scaled(by float64) (out Sample) {
	for _, v := range s {
		out = append(out, v*by)
	}
	return out
}

// servers are the peers that are in pictures.
func servers(t *Table) []string {
	return slices.DeleteFunc(slices.Clone(t.Peers), func(p string) bool { return p == NullPeer })
}

// points are a line with its spread.
type points struct {
	plotter.XYs
	plotter.YErrors
}

// draw adds a line for each peer; x is logarithmic.
func (s series) draw(p *plot.Plot, t *Table, get func(*Cell) Sample) error {
	p.X.Scale = plot.LogScale{}
	var ticks plot.ConstantTicks
	for _, w := range s.workloads {
		ticks = append(ticks, plot.Tick{Value: s.x(w), Label: s.label(w)})
	}
	p.X.Tick.Marker = ticks
	for i, peer := range servers(t) {
		var pts points
		for _, w := range s.workloads {
			c := t.Cell(w, peer)
			if c == nil {
				continue
			}
			if v := get(c); len(v) > 0 && v.Min() > 0 {
				m := v.Median()
				pts.XYs = append(pts.XYs, plotter.XY{X: s.x(w), Y: m})
				pts.YErrors = append(pts.YErrors, struct{ Low, High float64 }{m - v.Min(), v.Max() - m})
			}
		}
		if err := pts.add(p, peer, i); err != nil {
			return err
		}
	}
	// Room for the legend above, and for the outermost labels.
	if p.Y.Scale == (plot.LinearScale{}) {
		p.Y.Min, p.Y.Max = 0, p.Y.Max*1.4
	} else {
		p.Y.Max *= 4
	}
	p.X.Min, p.X.Max = p.X.Min/1.1, p.X.Max*1.2
	return nil
}

func (pts *points) add(p *plot.Plot, name string, i int) error {
	if len(pts.XYs) == 0 {
		return nil
	}
	line, dots, err := plotter.NewLinePoints(pts.XYs)
	if err != nil {
		return err
	}
	bars, err := plotter.NewYErrorBars(pts)
	if err != nil {
		return err
	}
	c := colours[i%len(colours)]
	line.Color, dots.Color, bars.Color = c, c, c
	line.Width, dots.Radius = vg.Points(1.5), vg.Points(2.5)
	if i >= len(colours) {
		line.Dashes = []vg.Length{vg.Points(5), vg.Points(3)}
	}
	p.Add(line, dots, bars)
	p.Legend.Add(name, line, dots)
	return nil
}
