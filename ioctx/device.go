package ioctx

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// device is a disk with the streams that are read from it. Devices know nothing
// of one another.
type device struct {
	ctx *Context
	disk
	stuck atomic.Bool // has not answered for giveUpAfter

	// mu guards all below, and the files' fileIO, streams and units.
	mu    sync.Mutex
	turns turns
	files map[*fileIO]struct{}
	spans []span // scratch
	stats DeviceStats
}

// lockFile returns the device's state for a file, and locks the device.
func (d *device) lockFile(f *File, fd int) *fileIO {
	d.mu.Lock()
	io := f.io.Load()
	if io == nil || io.gone {
		io = &fileIO{file: f, dev: d}
		f.io.Store(io)
		d.files[io] = struct{}{}
		if d.ctx.cfg.ReadAhead != ReadAheadOff {
			// The streams are read ahead here; the kernel should not do it again,
			// nor for those who jump about (posix_fadvise(2)).
			_ = unix.Fadvise(fd, 0, 0, unix.FADV_RANDOM)
		}
	}
	return io
}

// hit moves the stream on of a READ that was answered from the page cache. Only
// misses begin streams, and one that has come to the end of its file is done with:
// what is read from the page cache alone is left alone.
func (d *device) hit(io *fileIO, r span, size int64, fd, lane int, now time.Time) {
	s := io.near(r)
	if s == nil {
		return
	}
	old := s.used
	if s = io.move(s, r, now); !s.sequential() {
		s.used = old
		return
	}
	if s.issued > 0 && r.off >= s.first && r.end <= s.issued {
		d.stats.Hits++
	}
	if s.base >= size {
		d.end(s)
		io.streams = slices.DeleteFunc(io.streams, func(o *stream) bool { return o == s })
		return
	}
	d.readAhead(s, r, size, fd, lane, now)
}

// miss queues what is missing of a READ's range and has w wait for it.
func (d *device) miss(io *fileIO, r span, size int64, fd, lane int, w Waiter, now time.Time) {
	s := io.follow(r, now)
	if s.sequential() {
		d.lookForLoss(s, r, fd)
		d.readAhead(s, r, size, fd, lane, now)
	}
	before := len(io.units)
	d.spans = io.gaps(r, d.spans[:0])
	for _, g := range d.spans {
		d.demand(io, g, size, fd, lane, now)
	}
	wt := &wait{w: w, since: now}
	for _, u := range io.units {
		if u.overlaps(r) {
			u.waits = append(u.waits, wt)
			wt.left++
		}
	}
	d.stats.Waits++
	if len(io.units) == before {
		d.stats.Coalesced++
	}
}

// lookForLoss shrinks the window if a range that was read ahead is neither there
// nor on its way.
func (d *device) lookForLoss(s *stream, r span, fd int) {
	if s.issued == 0 || r.off < s.first || r.end > s.issued {
		return
	}
	d.spans = s.io.gaps(r, d.spans[:0])
	for _, g := range d.spans {
		if all, err := cached(fd, g.off, int(g.len())); !all && err == nil {
			s.window.lost()
			d.stats.Lost++
			return
		}
	}
}

// readAhead queues what the stream should have on its way by now.
func (d *device) readAhead(s *stream, r span, size int64, fd, lane int, now time.Time) {
	if d.ctx.cfg.ReadAhead == ReadAheadOff {
		return
	}
	first := s.issued == 0
	want := s.wants(r, size)
	if want.len() <= 0 {
		return
	}
	if !first {
		s.window.grow(d.ctx.windowLimit.Load())
	}
	d.spans = s.io.gaps(want, d.spans[:0])
	for _, g := range d.spans {
		for g.off < g.end {
			// Units end where the disk's largest requests would.
			end := min(g.end, (g.off/d.unit+1)*d.unit)
			d.queue(&unit{span: span{g.off, end}, io: s.io, fd: fd, stream: s, lane: lane, asked: now})
			g.off = end
		}
	}
	s.issued = want.end
}

// demand queues a range that was asked for by itself, whole pages of it. It
// becomes a part of a neighbour that still waits for its turn.
func (d *device) demand(io *fileIO, g span, size int64, fd, lane int, now time.Time) {
	g.off &^= pageSize - 1
	g.end = min((g.end+pageSize-1)&^(pageSize-1), size)
	for _, u := range io.units {
		if u.stream == nil && !u.inFlight && u.end == g.off && u.len()+g.len() <= d.unit {
			u.end = g.end
			d.stats.Coalesced++
			return
		}
	}
	for g.off < g.end {
		end := min(g.end, g.off+d.unit)
		d.queue(&unit{span: span{g.off, end}, io: io, fd: fd, lane: lane, asked: now})
		g.off = end
	}
}

// queue adds a unit, which keeps its file open until it has been read.
func (d *device) queue(u *unit) {
	u.io.file.refs.Add(1)
	u.io.insert(u)
	d.turns.enqueue(u)
}

// pump reads what may be read now. Units that no lane takes are returned.
func (d *device) pump(now time.Time) (failed []*unit) {
	for u := d.turns.next(now); u != nil; u = d.turns.next(now) {
		u.inFlight = true
		if u.stream != nil && len(u.waits) == 0 && d.inCache(u) {
			failed = append(failed, u)
			continue
		}
		d.stats.Requests++
		d.stats.Bytes += uint64(u.len())
		if u.stream != nil {
			d.stats.Ahead += uint64(u.len())
		}
		if d.ctx.lanes[u.lane].submit(u) != nil {
			failed = append(failed, u)
		}
	}
	d.stats.Turns = d.turns.count
	return failed
}

func (d *device) inCache(u *unit) bool {
	all, err := cached(u.fd, u.off, int(u.len()))
	return all && err == nil
}

var errNotKept = errors.New("ioctx: the page cache did not take the pages")

// finish forgets a unit that has been read, or could not be, and appends to
// buf those who have nothing left to wait for.
func (d *device) finish(u *unit, err error, now time.Time, buf []*wait) []*wait {
	d.turns.done(u)
	d.forget(u)
	d.stuck.Store(false)
	if err != nil {
		d.stats.Failed++
	}
	switch err {
	case nil:
		u.io.failed = 0
	case errNotKept:
		u.io.failed++
	}
	if u.stream != nil {
		u.stream.window.came(now.Sub(u.asked))
		if err == errNotKept {
			u.stream.window.lost()
			d.stats.Lost++
		}
	}
	for _, w := range u.waits {
		if w.left--; w.left == 0 && w.w != nil {
			buf = append(buf, w)
		}
	}
	u.waits = nil
	return buf
}

// forget takes a unit out of its file, which may be closed then.
func (d *device) forget(u *unit) {
	u.io.remove(u)
	u.io.file.Release()
}

// end gives up a stream: what is queued for it is read only if somebody waits
// for it.
func (d *device) end(s *stream) {
	waste := s.unread()
	for _, u := range d.turns.drop(s) {
		waste -= u.len()
		if len(u.waits) == 0 {
			d.forget(u)
			continue
		}
		u.stream = nil
		d.turns.enqueue(u)
	}
	d.stats.Waste += uint64(max(0, waste))
}

func (d *device) countStreams() (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for io := range d.files {
		for _, s := range io.streams {
			if s.issued > 0 {
				n++
			}
		}
	}
	return n
}

// sweep ends streams that are not used any more, forgets files without any, and
// returns who has waited for too long.
func (d *device) sweep(now time.Time) (late []*wait) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for io := range d.files {
		io.streams = slices.DeleteFunc(io.streams, func(s *stream) bool {
			old := now.Sub(s.used) > streamIdle
			if old {
				d.end(s)
			}
			return old
		})
		for _, u := range io.units {
			for _, w := range u.waits {
				if w.w != nil && now.Sub(w.since) > giveUpAfter {
					late = append(late, &wait{w: w.w})
					w.w = nil
				}
			}
		}
		if len(io.streams) == 0 && len(io.units) == 0 {
			io.gone = true
			io.file.io.CompareAndSwap(io, nil)
			delete(d.files, io)
		}
	}
	if len(late) > 0 {
		d.stuck.Store(true)
		d.stats.GaveUp += uint64(len(late))
	}
	return late
}
