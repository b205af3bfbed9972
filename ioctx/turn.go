package ioctx

import "time"

// turns decides what a device reads next. Streams take turns: one is served for
// turnBytes or turnTime, whichever ends first, before the next, so that the
// device sees long sequential requests, and no stream waits for longer than the
// turns of the others. What is asked for by itself does not wait for a turn.
// The device's lock guards it.
type turns struct {
	depth int // units of streams in flight

	demands    []*unit // in order of arrival
	demandsOut int
	streamsOut int
	// beginning is the stream's unit that the kernel has not begun to read. There
	// is one at a time: workers would overtake one another.
	beginning *unit

	current *stream
	bytes   int64 // read in the current turn
	began   time.Time
	ready   []*stream // others that have something queued
	count   uint64
}

// enqueue adds a unit.
func (t *turns) enqueue(u *unit) {
	s := u.stream
	if s == nil {
		t.demands = append(t.demands, u)
		return
	}
	s.queue = append(s.queue, u)
	if s != t.current && !s.ready {
		s.ready = true
		t.ready = append(t.ready, s)
	}
}

// next takes the unit to read now, or returns nil if there is none or enough is
// in flight.
func (t *turns) next(now time.Time) *unit {
	if len(t.demands) > 0 && t.demandsOut < demandsMax {
		u := t.demands[0]
		t.demands = append(t.demands[:0], t.demands[1:]...)
		t.demandsOut++
		return u
	}
	if t.streamsOut >= t.depth || t.beginning != nil {
		return nil
	}
	s := t.turn(now)
	if s == nil {
		return nil
	}
	u := s.queue[0]
	s.queue = append(s.queue[:0], s.queue[1:]...)
	t.streamsOut++
	t.beginning = u
	t.bytes += u.len()
	return u
}

// turn returns the stream whose turn it is, or nil if none has anything queued.
func (t *turns) turn(now time.Time) *stream {
	if s := t.current; s != nil {
		over := t.bytes >= turnBytes || now.Sub(t.began) >= turnTime
		if len(s.queue) > 0 && (!over || len(t.ready) == 0) {
			return s
		}
		if len(s.queue) > 0 {
			s.ready = true
			t.ready = append(t.ready, s)
		}
		t.current = nil
	}
	if len(t.ready) == 0 {
		return nil
	}
	s := t.ready[0]
	t.ready = append(t.ready[:0], t.ready[1:]...)
	s.ready = false
	t.current, t.bytes, t.began = s, 0, now
	t.count++
	return s
}

// begun says that the kernel reads the unit.
func (t *turns) begun(u *unit) {
	if t.beginning == u {
		t.beginning = nil
	}
}

// done makes room for another unit.
func (t *turns) done(u *unit) {
	t.begun(u)
	if u.stream == nil {
		t.demandsOut--
	} else {
		t.streamsOut--
	}
}

// drop takes back what is queued for a stream, for which nobody waits.
func (t *turns) drop(s *stream) (dropped []*unit) {
	dropped, s.queue = s.queue, nil
	if s.ready {
		s.ready = false
		for i, o := range t.ready {
			if o == s {
				t.ready = append(t.ready[:i], t.ready[i+1:]...)
				break
			}
		}
	}
	if t.current == s {
		t.current = nil
	}
	return dropped
}
