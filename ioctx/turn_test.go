package ioctx

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"
)

// model is a device with files whose pages come when the test says so.
type model struct {
	t     *testing.T
	d     *device
	files []*fileIO
	have  []map[int64]bool // by file: pages that have come
	out   []*unit
	now   time.Time
	lane  *modelLane
}

type modelLane struct{ taken []*unit }

func (l *modelLane) submit(u *unit) error        { l.taken = append(l.taken, u); return nil }
func (l *modelLane) close(<-chan time.Time) bool { return true }

const modelSize = 64 << 20

func newModel(t *testing.T, files int) *model {
	m := &model{t: t, now: time.Unix(1, 0), lane: new(modelLane)}
	c := &Context{cfg: Config{Log: slog.Default()}, lanes: []lane{m.lane}}
	c.windowLimit.Store(windowMax)
	m.d = &device{ctx: c, disk: disk{unit: mib}, files: make(map[*fileIO]struct{})}
	m.d.turns.depth = unitsInFlight
	for range files {
		f := &File{}
		f.refs.Store(1)
		io := m.d.lockFile(f, -1)
		m.d.mu.Unlock()
		m.files, m.have = append(m.files, io), append(m.have, make(map[int64]bool))
	}
	return m
}

// reader is a client that reads one file, with some READs outstanding.
type reader struct {
	m       *model
	file    int
	todo    []span
	pending map[*readerCall]bool
	done    int
	waited  time.Duration // the longest
}

type readerCall struct {
	r       *reader
	span    span
	since   time.Time
	resumed int
}

func (c *readerCall) Resume(gaveUp bool) {
	c.resumed++
	c.r.waited = max(c.r.waited, c.r.m.now.Sub(c.since))
	if gaveUp || c.resumed > 1 || !c.r.m.cached(c.r.file, c.span) {
		c.r.m.t.Errorf("file %d, %v: resumed %d times, gave up %v, data there %v",
			c.r.file, c.span, c.resumed, gaveUp, c.r.m.cached(c.r.file, c.span))
	}
	delete(c.r.pending, c)
	c.r.done++
}

func (m *model) cached(file int, r span) bool {
	for p := r.off / pageSize; p*pageSize < r.end; p++ {
		if !m.have[file][p] {
			return false
		}
	}
	return true
}

// read sends the client's next READ.
func (r *reader) read() {
	m, s := r.m, r.todo[0]
	r.todo = r.todo[1:]
	f := m.files[r.file]
	if m.cached(r.file, s) {
		m.d.hit(f, s, modelSize, -1, 0, m.now)
		r.done++
	} else {
		c := &readerCall{r: r, span: s, since: m.now}
		r.pending[c] = true
		m.d.miss(f, s, modelSize, -1, 0, c, m.now)
	}
	m.pump()
}

func (m *model) pump() {
	m.d.pump(m.now)
	for len(m.lane.taken) > 0 {
		taken := m.lane.taken
		m.lane.taken = nil
		m.out = append(m.out, taken...)
		for _, u := range taken {
			m.d.turns.begun(u)
		}
		m.d.pump(m.now)
	}
	streams, demands := 0, 0
	for _, u := range m.out {
		if u.stream != nil {
			streams++
		} else {
			demands++
		}
		if u.len() > m.d.unit || u.len() <= 0 {
			m.t.Errorf("unit of %d bytes", u.len())
		}
	}
	if streams > unitsInFlight || demands > demandsMax {
		m.t.Errorf("%d units of streams and %d others in flight", streams, demands)
	}
}

// arrive has a unit in flight come.
func (m *model) arrive(i int) {
	u := m.out[i]
	m.out = append(m.out[:i], m.out[i+1:]...)
	for f, io := range m.files {
		if io == u.io {
			for p := u.off / pageSize; p*pageSize < u.end; p++ {
				m.have[f][p] = true
			}
		}
	}
	resume(m.d.finish(u, nil, m.now, nil), false)
	m.pump()
}

// Whatever the order in which READs and data come: every READ is answered once,
// when its data is there; the bounds hold; nothing stays behind.
func TestContextModel(t *testing.T) {
	for seed := range uint64(150) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { runModel(t, seed) })
	}
}

func runModel(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 7))
	m := newModel(t, 1+rnd.IntN(4))
	var readers []*reader
	total := 0
	for range 1 + rnd.IntN(6) {
		r := &reader{m: m, file: rnd.IntN(len(m.files)), pending: make(map[*readerCall]bool)}
		r.todo = randomReads(rnd)
		total += len(r.todo)
		readers = append(readers, r)
	}
	for steps := 0; ; steps++ {
		if steps > 200*total {
			t.Fatal("does not end")
		}
		m.now = m.now.Add(time.Duration(rnd.IntN(5)) * time.Millisecond)
		if len(m.out) > 0 && rnd.IntN(2) == 0 {
			m.arrive(rnd.IntN(len(m.out)))
			continue
		}
		r := readers[rnd.IntN(len(readers))]
		if len(r.todo) > 0 && len(r.pending) < 32 {
			r.read()
			continue
		}
		if len(m.out) == 0 && allIdle(readers) {
			break
		}
	}
	done := 0
	for _, r := range readers {
		done += r.done
	}
	if done != total || m.d.turns.streamsOut != 0 || m.d.turns.demandsOut != 0 {
		t.Errorf("%d of %d READs answered; %d and %d units out", done, total, m.d.turns.streamsOut, m.d.turns.demandsOut)
	}
	m.d.sweep(m.now.Add(time.Hour))
	if len(m.d.files) != 0 {
		t.Errorf("%d files are not forgotten", len(m.d.files))
	}
	for i, f := range m.files {
		if n := f.file.refs.Load(); n != 1 || len(f.units) != 0 {
			t.Errorf("file %d: %d references, %d units left", i, n, len(f.units))
		}
	}
}

func allIdle(readers []*reader) bool {
	for _, r := range readers {
		if len(r.todo) > 0 || len(r.pending) > 0 {
			return false
		}
	}
	return true
}

func randomReads(rnd *rand.Rand) []span {
	size := 4 * kib << rnd.IntN(9)
	n := min(modelSize/size, 20+rnd.Int64N(200))
	from := rnd.Int64N(modelSize-n*size+1) &^ (pageSize - 1)
	switch rnd.IntN(4) {
	case 0:
		return inOrder(from, n, size)
	case 1:
		return shuffled(rnd, inOrder(from, n, size), 1+rnd.IntN(32))
	case 2: // unaligned, overlapping
		var rs []span
		for i := range n {
			off := min(from+i*size/2+rnd.Int64N(1000), modelSize-1)
			rs = append(rs, span{off, min(off+size, modelSize)})
		}
		return rs
	}
	var rs []span
	for range n {
		off := rnd.Int64N(modelSize)
		rs = append(rs, span{off, min(off+1+rnd.Int64N(size), modelSize)})
	}
	return rs
}

// Streams that never let up take turns; none waits for longer than the turns of
// the others and what was in flight.
func TestTurns(t *testing.T) {
	const streams = 4
	unitTime := 10 * time.Millisecond // 100 MiB/s
	m := newModel(t, streams)
	var readers []*reader
	for i := range streams {
		r := &reader{m: m, file: i, todo: inOrder(0, modelSize/(128*kib), 128*kib), pending: make(map[*readerCall]bool)}
		readers = append(readers, r)
	}
	var order []*fileIO
	for !allIdle(readers) {
		for _, r := range readers {
			for len(r.todo) > 0 && len(r.pending) < 16 {
				r.read()
			}
		}
		if len(m.out) > 0 {
			order = append(order, m.out[0].io)
			m.now = m.now.Add(unitTime)
			m.arrive(0)
		}
	}
	switches := 0
	for i := 1; i < len(order); i++ {
		if order[i] != order[i-1] {
			switches++
		}
	}
	// At 100 MiB/s a turn of 150 ms has 15 units of 1 MiB. The first windows are
	// shorter.
	if most := len(order)/10 + 30; switches > most {
		t.Errorf("%d switches between streams in %d units, want at most %d", switches, len(order), most)
	}
	bound := (streams-1)*(turnTime+(unitsInFlight+1)*unitTime) + turnTime
	for i, r := range readers {
		if r.waited > bound {
			t.Errorf("stream %d waited %v, bound %v", i, r.waited, bound)
		}
	}
}

// A lone READ goes between the units of a stream's turn.
func TestLoneReadDoesNotWaitForATurn(t *testing.T) {
	m := newModel(t, 2)
	stream := &reader{m: m, file: 0, todo: inOrder(0, 400, 128*kib), pending: make(map[*readerCall]bool)}
	for range 100 {
		stream.read()
	}
	before := len(m.out)
	lone := &reader{m: m, file: 1, todo: []span{request(40*mib, 4*kib)}, pending: make(map[*readerCall]bool)}
	lone.read()
	if len(m.out) != before+1 || m.out[before].io != m.files[1] {
		t.Errorf("%d units in flight, want one more than %d, for the lone READ", len(m.out), before)
	}
	for len(m.out) > 0 {
		m.arrive(0)
	}
}

// The same bytes asked for by many are read once.
func TestDuplicatesAreReadOnce(t *testing.T) {
	m := newModel(t, 1)
	var readers []*reader
	for range 8 {
		r := &reader{m: m, todo: []span{request(mib, 128*kib)}, pending: make(map[*readerCall]bool)}
		r.read()
		readers = append(readers, r)
	}
	if len(m.out) != 1 || m.out[0].len() != 128*kib {
		t.Errorf("in flight: %d units", len(m.out))
	}
	m.arrive(0)
	if !allIdle(readers) || m.d.stats.Coalesced != 7 {
		t.Errorf("%d coalesced, want 7", m.d.stats.Coalesced)
	}
}

// A device that does not answer costs its waiters giveUpAfter, later ones nothing.
func TestGiveUp(t *testing.T) {
	m := newModel(t, 1)
	gaveUp := 0
	m.d.miss(m.files[0], request(0, 4096), modelSize, -1, 0, waiterFunc(func(g bool) {
		if g {
			gaveUp++
		}
	}), m.now)
	m.pump()
	resume(m.d.sweep(m.now.Add(giveUpAfter-time.Second)), true)
	if gaveUp != 0 || m.d.stuck.Load() {
		t.Fatal("gave up too early")
	}
	resume(m.d.sweep(m.now.Add(giveUpAfter+time.Second)), true)
	if gaveUp != 1 || !m.d.stuck.Load() {
		t.Fatalf("gave up %d times, stuck %v", gaveUp, m.d.stuck.Load())
	}
	m.arrive(0)
	if m.d.stuck.Load() || gaveUp != 1 {
		t.Errorf("the device has answered: stuck %v, resumed %d times", m.d.stuck.Load(), gaveUp)
	}
}

type waiterFunc func(gaveUp bool)

func (f waiterFunc) Resume(gaveUp bool) { f(gaveUp) }
