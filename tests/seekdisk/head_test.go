package seekdisk

import (
	"testing"
	"time"
)

const ms = time.Millisecond

// testHead passes 100 bytes per millisecond.
func testHead(ncq int) head {
	return head{size: 1_000_000, rate: 100_000, seek: 8 * ms, trackBuffer: 1000, ncq: ncq}
}

func TestHeadServe(t *testing.T) {
	type step struct {
		what         string
		off, n       int64
		arrived, now time.Duration
		begin, end   time.Duration
		sought       bool
	}
	steps := []step{
		{"at the start of the disk, where the head is", 0, 1000, 0, 0, 0, 10 * ms, false},
		{"the next, which was waiting", 1000, 500, 5 * ms, 10 * ms, 10 * ms, 15 * ms, false},
		{"a seek, which was waiting and is taken up late", 5000, 100, 12 * ms, 16 * ms, 15 * ms, 24 * ms, true},
		{"a seek after a rest", 9000, 100, 50 * ms, 50 * ms, 50 * ms, 59 * ms, true},
		{"half of it read ahead during a rest", 9100, 1000, 64 * ms, 64 * ms, 59 * ms, 69 * ms, false},
		{"all of it read ahead", 10_100, 1000, 79 * ms, 79 * ms, 69 * ms, 79 * ms, false},
		{"no more than the buffer is read ahead", 11_100, 1500, 200 * ms, 200 * ms, 190 * ms, 205 * ms, false},
		{"one byte further on is a seek", 12_601, 99, 205 * ms, 205 * ms, 205 * ms, 205*ms + 8990*time.Microsecond, true},
		{"and so is backward", 12_500, 100, 220 * ms, 220 * ms, 220 * ms, 229 * ms, true},
	}
	h := testHead(1)
	for _, s := range steps {
		got := h.serve(&request{off: s.off, n: s.n, arrived: s.arrived}, s.now)
		cost := time.Duration(s.n) * ms / 100
		if s.sought {
			cost += 8 * ms
		}
		if want := (work{s.begin, s.end, cost, s.sought}); got != want {
			t.Errorf("%s: %+v, want %+v", s.what, got, want)
		}
		if h.pos != s.off+s.n || h.free != got.end {
			t.Errorf("%s: head at %d at %v", s.what, h.pos, h.free)
		}
	}
}

func TestHeadPick(t *testing.T) {
	offsets := []int64{900, 100, 500, 550, 510}
	for _, c := range []struct {
		ncq  int
		pos  int64
		want int64 // offset of the request picked
	}{
		{1, 500, 900}, // in order of arrival
		{2, 500, 900},
		{3, 500, 500}, // sees 500, but not 510
		{3, 501, 900},
		{5, 501, 510},
		{5, 901, 100}, // round the end
		{99, 0, 100},
	} {
		h := testHead(c.ncq)
		h.pos = c.pos
		var queue []*request
		for _, off := range offsets {
			queue = append(queue, &request{off: off, n: 1})
		}
		if got := queue[h.pick(queue)].off; got != c.want {
			t.Errorf("depth %d, head at %d: picked %d, want %d", c.ncq, c.pos, got, c.want)
		}
	}
}
