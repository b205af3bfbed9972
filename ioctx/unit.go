package ioctx

import (
	"time"

	"sluice/uring"
)

// Waiter is told when what it waits for has been read.
type Waiter interface {
	// Resume says that the wait is over: the data is there, or could not be read
	// this way. gaveUp says that the device does not answer.
	Resume(gaveUp bool)
}

// unit is a range of a file that is read from the device as one. It is queued,
// then in flight, then forgotten. Its device's lock guards all but op and b,
// which are its lane's while it is in flight.
type unit struct {
	span
	io     *fileIO
	fd     int
	stream *stream // nil for a range that was asked for by itself
	lane   int
	waits  []*wait

	asked    time.Time // when it was queued
	inFlight bool

	op uring.Op
	b  [1]byte
}

// wait is a READ that waits for one unit or several.
type wait struct {
	w     Waiter
	left  int
	since time.Time
}

// fileIO is what a device knows of a file that is being read from it.
type fileIO struct {
	file    *File
	dev     *device
	streams []*stream
	units   []*unit // queued and in flight, by offset
	failed  int     // units in a row that the page cache did not take
	gone    bool    // forgotten by the device; a new one takes its place
}

// near returns the stream that a request belongs to, or nil.
func (f *fileIO) near(r span) *stream {
	var best *stream
	for _, s := range f.streams {
		if d := s.distance(r); d <= reorder(r) && (best == nil || d < best.distance(r)) {
			best = s
		}
	}
	return best
}

// follow finds the stream of a request, or begins one, and moves it on.
func (f *fileIO) follow(r span, now time.Time) *stream {
	s := f.near(r)
	if s == nil {
		s = &stream{io: f, base: r.end, used: now}
		f.add(s)
		return s
	}
	return f.move(s, r, now)
}

// move adds a request to its stream and returns the stream it is in then.
func (f *fileIO) move(s *stream, r span, now time.Time) *stream {
	s.window.consumed(r.len(), now)
	if split := s.take(r); split != nil {
		f.add(split)
		s = split
	}
	s.used = now
	return s
}

// add keeps a stream, in place of the one not used for longest if there are many.
func (f *fileIO) add(s *stream) {
	if len(f.streams) < streamsPerFile {
		f.streams = append(f.streams, s)
		return
	}
	oldest := 0
	for i, o := range f.streams {
		if o.used.Before(f.streams[oldest].used) {
			oldest = i
		}
	}
	f.dev.end(f.streams[oldest])
	f.streams[oldest] = s
}

// insert puts a unit in its place.
func (f *fileIO) insert(u *unit) {
	i := len(f.units)
	for i > 0 && f.units[i-1].off > u.off {
		i--
	}
	f.units = append(f.units, nil)
	copy(f.units[i+1:], f.units[i:])
	f.units[i] = u
}

func (f *fileIO) remove(u *unit) {
	for i, o := range f.units {
		if o == u {
			f.units = append(f.units[:i], f.units[i+1:]...)
			return
		}
	}
}

// gaps appends to buf the parts of r that no unit reads already.
func (f *fileIO) gaps(r span, buf []span) []span {
	for _, u := range f.units {
		if !u.overlaps(r) {
			continue
		}
		if r.off < u.off {
			buf = append(buf, span{r.off, u.off})
		}
		r.off = max(r.off, u.end)
	}
	if r.off < r.end {
		buf = append(buf, r)
	}
	return buf
}
