package sendpath

import (
	"sync/atomic"
	"time"
)

// counters count reads by the path they took, and by why they did not take
// another.
type counters struct {
	Inline, Spliced, Ringed, Copied atomic.Uint64
	// NoPipe and Refused were to be spliced and were copied: no pipe was to be
	// had, or the file system does not splice. NoRing were to leave through the
	// ring and did not. NoRoom were to be copied through a buffer and went into
	// the batch, cut short.
	NoPipe, Refused, NoRing, NoRoom atomic.Uint64
	// Held is for how long a thread is held by a send.
	Held Histogram
}

// heldBounds are the upper bounds of a Histogram's buckets; the last has none.
var heldBounds = [...]time.Duration{
	5 * time.Microsecond, 10 * time.Microsecond, 20 * time.Microsecond, 50 * time.Microsecond, 100 * time.Microsecond,
	200 * time.Microsecond, 500 * time.Microsecond, time.Millisecond, 5 * time.Millisecond,
}

var started = time.Now()

// clock is a monotonic clock that costs one reading; time.Now makes two.
func clock() time.Duration { return time.Since(started) }

// Histogram counts durations.
type Histogram [len(heldBounds) + 1]atomic.Uint64

func (h *Histogram) observe(d time.Duration) {
	i := 0
	for i < len(heldBounds) && d > heldBounds[i] {
		i++
	}
	h[i].Add(1)
}

// Bucket is how many durations were at most Micros, and more than the bucket
// before; Micros 0 is the last, without a bound.
type Bucket struct {
	Micros int
	Count  uint64
}

// Buckets returns the buckets that are not empty.
func (h *Histogram) Buckets() (all []Bucket) {
	for i := range h {
		b := Bucket{Count: h[i].Load()}
		if i < len(heldBounds) {
			b.Micros = int(heldBounds[i] / time.Microsecond)
		}
		if b.Count > 0 {
			all = append(all, b)
		}
	}
	return all
}

// Size is what is known of reads of up to so many bytes, and more than the size
// before. The figures are CPU time in nanoseconds for one read: as measured at
// start, and as seen since; 0 is not known.
type Size struct {
	Bytes                     int
	Path                      string
	CopyNs, SpliceNs, UringNs int64
	SeenCopyNs, SeenSpliceNs  int64
}

// Stats is a snapshot of a Sender.
type Stats struct {
	Mode string
	// Note says what is not as asked for, if anything.
	Note                            string `json:",omitempty"`
	SmallRead                       int    // up to so many bytes go into the batch
	Inline, Spliced, Ringed, Copied uint64 // reads by path
	NoPipe, Refused, NoRing, NoRoom uint64 // see counters
	Rings                           int
	Workers                         int // io-wq workers there may be, in all
	Held                            []Bucket
	Sizes                           []Size
}

// Stats returns a snapshot.
func (s *Sender) Stats() Stats {
	st := Stats{
		Mode: s.cfg.Mode.String(), SmallRead: s.SmallLimit(),
		Inline: s.Inline.Load(), Spliced: s.Spliced.Load(), Ringed: s.Ringed.Load(), Copied: s.Copied.Load(),
		NoPipe: s.NoPipe.Load(), Refused: s.Refused.Load(), NoRing: s.NoRing.Load(), NoRoom: s.NoRoom.Load(),
		Rings: len(s.rings), Held: s.Held.Buckets(),
	}
	if note := s.note.Load(); note != nil {
		st.Note = *note
	}
	for _, r := range s.rings {
		st.Workers += r.workers
	}
	for i := range s.classes {
		st.Sizes = append(st.Sizes, s.size(i))
	}
	return st
}

func (s *Sender) size(i int) Size {
	c := &s.classes[i]
	z := Size{Bytes: classSize(i), Path: path(c.path.Load()).String(),
		CopyNs: int64(c.calibrated[pathCopy]), SpliceNs: int64(c.calibrated[pathSplice]), UringNs: int64(c.calibrated[pathUring]),
		SeenCopyNs: c.seen[pathCopy].Load(), SeenSpliceNs: c.seen[pathSplice].Load()}
	if z.Bytes <= s.SmallLimit() {
		z.Path = "batch"
	}
	return z
}
