package ioctx

import "time"

// span is a range of bytes of a file, from off up to but without end.
type span struct{ off, end int64 }

func (r span) len() int64           { return r.end - r.off }
func (r span) overlaps(o span) bool { return r.off < o.end && o.off < r.end }

// stream is a run of READs through a file, in order but for the shuffling that
// clients with many slots or several connections cause. It knows nothing of
// threads, connections or disks. Its device's lock guards it.
type stream struct {
	io *fileIO
	// base is where the run has come to: all before it was asked for, as far as
	// the stream goes back.
	base int64
	// ahead has what was asked for beyond base: sorted, disjoint, not adjacent.
	ahead []span
	// steps counts how often base moved, run how many bytes it went.
	steps, run int64
	// issued is how far the file is read, or queued to be read, for the stream;
	// 0 until it is sequential. first is where that began.
	first, issued int64
	window        window
	used          time.Time

	// queue has what is to be read, in order; ready says that the stream is in its
	// device's list, waiting for its turn.
	queue []*unit
	ready bool
}

// reorder is how far from its place in the run a request may come.
func reorder(r span) int64 { return min(reorderRequests*r.len(), reorderBytes) }

// distance says how far a request is from where the stream has come to.
func (s *stream) distance(r span) int64 {
	if r.off < s.base {
		return s.base - r.off
	}
	return r.off - s.base
}

// sequential says that the stream is worth reading ahead for. Two READs in a row
// make one if they are large, three if not.
func (s *stream) sequential() bool {
	return s.steps >= 2 || s.steps == 1 && s.run >= sequentialBytes
}

// take adds a request near enough to the stream. If it completes a run that
// is too far from base to be a part of the same one, that run is returned as a
// stream of its own.
func (s *stream) take(r span) (split *stream) {
	if r.end <= s.base {
		return nil // late, or asked for twice
	}
	if r.off <= s.base {
		s.advance(r.end)
		return nil
	}
	i := s.insert(r)
	if s.ahead[i].len() < runRequests*r.len() {
		if len(s.ahead) > aheadMax {
			s.ahead = s.ahead[1:] // no run: it jumps about
		}
		return nil
	}
	run := s.ahead[i]
	if run.off-s.base <= holeRequests*r.len() {
		s.advance(run.end) // what is missing was in the client's cache, or comes late
		return nil
	}
	s.ahead = append(s.ahead[:i], s.ahead[i+1:]...)
	return &stream{io: s.io, base: run.end, steps: runRequests, run: run.len()}
}

// advance moves base to end, and over what was asked for there already.
func (s *stream) advance(end int64) {
	n := 0
	for n < len(s.ahead) && s.ahead[n].off <= end {
		end = max(end, s.ahead[n].end)
		n++
	}
	s.ahead = append(s.ahead[:0], s.ahead[n:]...)
	s.steps++
	s.run += end - s.base
	s.base = end
}

// insert adds a range beyond base to ahead and returns the place of the one that
// it became a part of.
func (s *stream) insert(r span) int {
	i := 0
	for i < len(s.ahead) && s.ahead[i].end < r.off {
		i++
	}
	j := i
	for j < len(s.ahead) && s.ahead[j].off <= r.end {
		r.off, r.end = min(r.off, s.ahead[j].off), max(r.end, s.ahead[j].end)
		j++
	}
	if i == j {
		s.ahead = append(s.ahead, span{})
		copy(s.ahead[i+1:], s.ahead[i:])
		s.ahead[i] = r
		return i
	}
	s.ahead[i] = r
	s.ahead = append(s.ahead[:i+1], s.ahead[j:]...)
	return i
}

// wants returns what should be read now because r was asked for: empty while
// half of the window is still ahead. size is the file's.
func (s *stream) wants(r span, size int64) span {
	if s.issued == 0 {
		s.first, s.issued = s.base, s.base
		s.window.start(r.len())
	}
	// A request just beyond what is being read belongs to it; one further off is
	// read by itself.
	near := r.off <= s.issued+s.window.size
	if s.issued-s.base > s.window.size/2 && (r.end <= s.issued || !near) {
		return span{}
	}
	from := max(s.issued, s.base)
	if near && r.end > s.issued {
		from = s.issued // what has not come yet lies between
	}
	to := s.base + s.window.size
	if near {
		to = max(to, r.end)
	}
	if to = min(to, size); to <= from {
		return span{}
	}
	return span{from, to}
}

// unread returns how many bytes were read for the stream that nobody asked for.
func (s *stream) unread() int64 {
	left := s.issued - max(s.base, s.first)
	for _, a := range s.ahead {
		left -= max(0, min(a.end, s.issued)-a.off)
	}
	return max(0, left)
}
