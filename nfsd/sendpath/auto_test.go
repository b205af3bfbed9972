package sendpath

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestClassOf(t *testing.T) {
	for n, want := range map[int]int{1: 0, 16 << 10: 0, 16<<10 + 1: 1, 32 << 10: 1, 64 << 10: 2, 1<<20 - 1: 6, 1 << 20: 6, 1<<20 + 1: 7, 4 << 20: 8, 8 << 20: 8} {
		if got := classOf(n); got != want {
			t.Errorf("%d bytes are of class %d, want %d", n, got, want)
		}
	}
}

// Calibration takes no longer than it may, finds a figure for every size and path
// that there is, and leaves nothing behind.
func TestCalibrate(t *testing.T) {
	s := newSender(t, Auto, 8)
	begin := time.Now()
	err := s.Calibrate()
	if err != nil && time.Since(begin) < calibrateMax {
		t.Fatal(err)
	}
	st := s.Stats()
	if err == nil {
		for _, size := range measuredSizes {
			z := st.Sizes[classOf(size)]
			if z.CopyNs <= 0 || z.SpliceNs <= 0 || z.UringNs < 0 {
				t.Errorf("%d: %+v", size, z)
			}
		}
	}
	if st.Spliced+st.Copied+st.Ringed+st.Inline > 0 || len(st.Held) > 0 {
		t.Errorf("counted what was sent to itself: %+v", st)
	}
	if limit := s.SmallLimit(); limit < 16<<10 || limit > InlineRead {
		t.Errorf("up to %d bytes into the batch", limit)
	}
	checkIdle(t, s)
}

// The cheapest path is taken for each size; splicing, unless another is clearly
// cheaper. The figures are in microseconds.
func TestDecide(t *testing.T) {
	type row struct{ copied, spliced, ringed time.Duration }
	usual := []row{{4, 9, 30}, {8, 11, 32}, {20, 15, 35}, {90, 40, 60}, {400, 140, 200}}
	for _, c := range []struct {
		name   string
		rows   []row
		small  int
		k128   string
		m1, m4 string
	}{
		{"as usual", usual, 32 << 10, "splice", "splice", "splice"},
		{"splice copies", []row{{4, 9, 30}, {8, 14, 32}, {20, 28, 35}, {90, 120, 130}, {400, 500, 520}}, 64 << 10, "copy", "copy", "copy"},
		{"about the same", []row{{4, 9, 30}, {8, 14, 32}, {20, 28, 35}, {90, 93, 95}, {400, 410, 420}}, 64 << 10, "splice", "splice", "splice"},
		{"the ring wins", []row{{4, 9, 30}, {8, 14, 32}, {20, 15, 35}, {90, 40, 60}, {400, 140, 100}}, 32 << 10, "splice", "uring", "uring"},
		{"no ring", []row{{4, 9, 0}, {8, 14, 0}, {20, 15, 0}, {90, 40, 0}, {400, 140, 0}}, 32 << 10, "splice", "splice", "splice"},
		{"copying is always dear", []row{{10, 9, 30}, {18, 14, 32}, {20, 15, 35}, {90, 40, 60}, {400, 140, 200}}, 16 << 10, "splice", "splice", "splice"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSender(t, Auto, 2)
			for i, r := range c.rows {
				k := s.class(measuredSizes[i])
				k.calibrated = [paths]time.Duration{pathCopy: r.copied * time.Microsecond, pathSplice: r.spliced * time.Microsecond, pathUring: r.ringed * time.Microsecond}
			}
			s.decide()
			sizes := s.Stats().Sizes
			got := []string{sizes[classOf(128<<10)].Path, sizes[classOf(1<<20)].Path, sizes[classOf(4<<20)].Path}
			if want := []string{c.k128, c.m1, c.m4}; s.SmallLimit() != c.small || strings.Join(got, " ") != strings.Join(want, " ") {
				t.Errorf("%d bytes into the batch, %v; want %d, %v", s.SmallLimit(), got, c.small, want)
			}
		})
	}
}

// What calibration would have a ring for goes by splice where there is none.
func TestDecideWithoutRing(t *testing.T) {
	s := startSender(t, Config{Mode: Auto, NoRing: true}, 2)
	for _, size := range measuredSizes {
		s.class(size).calibrated = [paths]time.Duration{pathCopy: 9000, pathSplice: 8000, pathUring: 1000}
	}
	s.decide()
	for _, z := range s.Stats().Sizes[1:] {
		if z.Path != "splice" {
			t.Errorf("%+v", z)
		}
	}
}

// Splicing that becomes dearer than copying is noticed, said once, and undone when
// it is no longer so; a small difference changes nothing.
func TestJudge(t *testing.T) {
	var log bytes.Buffer
	s := startSender(t, Config{Mode: Auto, Log: slog.New(slog.NewTextHandler(&log, nil))}, 2)
	c := s.class(1 << 20)
	see := func(spliced, copied int64) string {
		for range 10 * samplesMin {
			for p, cost := range map[path]int64{pathSplice: spliced, pathCopy: copied} {
				c.saw(p, cost)
				s.judge(c)
			}
		}
		return path(c.path.Load()).String()
	}
	for i, step := range []struct {
		spliced, copied int64
		want            string
	}{
		{100_000, 400_000, "splice"}, {450_000, 400_000, "splice"}, {600_000, 400_000, "copy"}, {380_000, 400_000, "copy"}, {100_000, 400_000, "splice"},
	} {
		if got := see(step.spliced, step.copied); got != step.want {
			t.Errorf("step %d: %s, want %s", i, got, step.want)
		}
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 1 {
		t.Errorf("said %d times:\n%s", n, log.String())
	}
	if z := s.Stats().Sizes[classOf(1<<20)]; z.SeenCopyNs != 400_000 || z.SeenSpliceNs == 0 {
		t.Errorf("%+v", z)
	}
}

// A few reads take the other path, and those looked at have figures.
func TestWatch(t *testing.T) {
	fd := openFile(t)
	s := newSender(t, Auto, 4)
	sock, peer := socketPair(t)
	for range 2 * tryEvery {
		p, err := s.Read(0, fd, 0, 100_000, false)
		must(t, err)
		sendAll(t, p, sock, peer)
		p.Release()
	}
	st := s.Stats()
	if st.Copied != 2*tryRun || st.Spliced != 2*(tryEvery-tryRun) {
		t.Errorf("%d copied, %d spliced", st.Copied, st.Spliced)
	}
	if z := st.Sizes[classOf(100_000)]; z.SeenSpliceNs == 0 || z.SeenCopyNs == 0 {
		t.Errorf("%+v", z)
	}
}

func TestHistogram(t *testing.T) {
	var h Histogram
	for _, d := range []time.Duration{0, 5 * time.Microsecond, 6 * time.Microsecond, 100 * time.Microsecond, 101 * time.Microsecond, time.Second} {
		h.observe(d)
	}
	want := []Bucket{{5, 2}, {10, 1}, {100, 1}, {200, 1}, {0, 1}}
	if got := h.Buckets(); len(got) != len(want) {
		t.Errorf("%v", got)
	} else {
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%v, want %v", got, want)
			}
		}
	}
}
