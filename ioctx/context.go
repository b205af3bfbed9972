package ioctx

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Values of Config.ReadAhead. Any other is the largest window of a stream, in
// bytes.
const (
	ReadAheadAuto = 0
	ReadAheadOff  = -1
)

// Config says how a Context works.
type Config struct {
	// MaxFiles bounds the open files kept, MaxPipes the pipes in use.
	MaxFiles, MaxPipes int
	// Private is the number of submitters, each with a ring and a kernel
	// io_context of its own; 0 is one for all, the shared context.
	Private int
	// ReadAhead is ReadAheadAuto, ReadAheadOff or a number of bytes. Off leaves
	// reading ahead to the kernel.
	ReadAhead int64
	// NoRing reads on threads, as where the kernel has no io_uring.
	NoRing bool
	// OnThread runs on each submitter's thread before it makes its ring, to pin
	// it; RingCPUs are the CPUs for its io-wq workers, empty for any.
	OnThread func(lane int) error
	RingCPUs func(lane int) []int
	// Log receives what the operator should know. Required.
	Log *slog.Logger
}

// Context is the shared I/O context: what all threads of a server use to read
// files. Data that is not in the page cache is brought there by its submitter,
// in the order that suits the disk.
type Context struct {
	Files *Files
	Pipes *Pipes
	// Fetched counts calls of Fetch.
	Fetched atomic.Uint64

	cfg   Config
	lanes []lane
	// windowLimit is how far a stream may be read ahead now, by memory and the
	// number of streams.
	windowLimit atomic.Int64

	mu      sync.Mutex
	devices map[uint64]*device // by the number that files have
	stop    chan struct{}
	stopped chan struct{}
}

// New makes a context. Close it when nothing reads any more.
func New(cfg Config) *Context {
	c := &Context{
		cfg:     cfg,
		Files:   NewFiles(cfg.MaxFiles),
		Pipes:   NewPipes(cfg.MaxPipes),
		devices: make(map[uint64]*device),
		stop:    make(chan struct{}),
		stopped: make(chan struct{}),
	}
	c.lanes = c.openLanes()
	c.windowLimit.Store(c.limit(0))
	go c.sweepLoop()
	return c
}

// Close ends the submitters and closes the files. It does not wait for long for a
// disk that hangs: what is under way there ends with the process.
func (c *Context) Close() {
	close(c.stop)
	<-c.stopped
	end := time.After(closePatience)
	for _, l := range c.lanes {
		if !l.close(end) {
			c.cfg.Log.Warn("a disk does not answer: reads from it are left under way")
			break
		}
	}
	c.Files.Close()
	c.Pipes.Close()
}

// Lanes is how many submitters there are.
func (c *Context) Lanes() int { return len(c.lanes) }

// Range is a part of a file that a READ is about: n bytes at Off. Size is the
// file's, which the range must not exceed; Lane the submitter to use, a number
// below Lanes.
type Range struct {
	File *File
	FD   int // of File.Data
	Dev  uint64
	Off  int64
	N    int
	Size int64
	Lane int
}

func (r *Range) span() span { return span{r.Off, r.Off + int64(r.N)} }

// Have says whether a range can be read without waiting for a disk, and moves
// the stream that it belongs to on.
func (c *Context) Have(r *Range) bool {
	if f := r.File.io.Load(); f != nil {
		if f.reading(r.span()) {
			return false
		}
		// Requests of one unit may arrive out of order.
		if !Resident(r.FD, r.Off, r.N) || !sampled(r.FD, r.Off, r.Off+int64(r.N)-1) {
			return false
		}
		c.Hit(r)
		return true
	}
	return Resident(r.FD, r.Off, r.N)
}

// ReadNow reads a range into p, which has room for it, if that waits for no disk,
// and moves its stream on. Else it returns EAGAIN, as [ReadNow] does.
//
// A read with RWF_NOWAIT of pages that are missing makes the kernel begin to read
// them, from this thread. So the page cache is asked first, but for files all of
// whose reads have been served from it so far.
func (c *Context) ReadNow(r *Range, p []byte) (int, error) {
	if r.File.io.Load() != nil || !r.File.warm.Load() {
		if all, err := cached(r.FD, r.Off, r.N); err == nil && !all {
			return 0, unix.EAGAIN
		}
	}
	n, err := ReadNow(r.FD, p, r.Off)
	if warm := err == nil; warm != r.File.warm.Load() {
		r.File.warm.Store(warm)
	}
	if err == nil {
		c.Hit(r)
	}
	return n, err
}

// reading says whether a part of the range is on its way.
func (f *fileIO) reading(r span) bool {
	f.dev.mu.Lock()
	defer f.dev.mu.Unlock()
	for _, u := range f.units {
		if u.inFlight && u.overlaps(r) {
			return true
		}
	}
	return false
}

// Hit moves the stream on that a range served from the page cache belongs to. A
// file that is wholly in the page cache has none, and then this costs nothing.
func (c *Context) Hit(r *Range) {
	f := r.File.io.Load()
	if f == nil {
		return
	}
	now := time.Now()
	d := f.dev
	d.mu.Lock()
	if f.gone {
		d.mu.Unlock()
		return
	}
	d.hit(f, r.span(), r.Size, r.FD, r.Lane, now)
	failed := d.pump(now)
	d.mu.Unlock()
	c.giveBack(d, failed)
}

// Miss has a range read that is not in the page cache; park is called to get
// who is to be told. It returns false if the file's data does not come this way,
// because the device does not answer (then gaveUp) or the file is not cached.
func (c *Context) Miss(r *Range, park func() Waiter) (parked, gaveUp bool) {
	d := c.device(r.Dev)
	if d.stuck.Load() {
		return false, true
	}
	now := time.Now()
	f := d.lockFile(r.File, r.FD)
	if f.failed >= failuresMax {
		d.mu.Unlock()
		return false, false
	}
	d.miss(f, r.span(), r.Size, r.FD, r.Lane, park(), now)
	failed := d.pump(now)
	d.mu.Unlock()
	c.giveBack(d, failed)
	return true, false
}

// giveBack ends units that were not read at all: because they are there, or
// because no lane took them.
func (c *Context) giveBack(d *device, units []*unit) {
	for len(units) > 0 {
		now := time.Now()
		var ready []*wait
		d.mu.Lock()
		for _, u := range units {
			ready = d.finish(u, nil, now, ready)
		}
		units = d.pump(now)
		d.mu.Unlock()
		resume(ready, false)
	}
}

// begun is how a lane says that the kernel has begun to read a unit.
func (c *Context) begun(u *unit) {
	d := u.io.dev
	now := time.Now()
	d.mu.Lock()
	d.turns.begun(u)
	failed := d.pump(now)
	d.mu.Unlock()
	c.giveBack(d, failed)
}

// complete is how a lane gives back a unit, on its own thread.
func (c *Context) complete(u *unit, err error) {
	d := u.io.dev
	now := time.Now()
	d.mu.Lock()
	ready := d.finish(u, err, now, nil)
	failed := d.pump(now)
	d.mu.Unlock()
	resume(ready, false)
	c.giveBack(d, failed)
}

func resume(ws []*wait, gaveUp bool) {
	for _, w := range ws {
		w.w.Resume(gaveUp)
	}
}

// device returns the device that files with this number are on.
func (c *Context) device(dev uint64) *device {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d := c.devices[dev]; d != nil {
		return d
	}
	found := findDisk("/sys", dev)
	d := c.devices[found.dev]
	if d == nil {
		d = &device{ctx: c, disk: found, files: make(map[*fileIO]struct{})}
		d.turns.depth = unitsInFlight
		c.devices[found.dev] = d
	}
	c.devices[dev] = d // a partition, if the numbers differ
	return d
}

func (c *Context) allDevices() (all []*device) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for dev, d := range c.devices {
		if dev == d.dev {
			all = append(all, d)
		}
	}
	return all
}

func (c *Context) sweepLoop() {
	defer close(c.stopped)
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-c.stop:
			return
		case now := <-tick.C:
			c.sweep(now)
		}
	}
}

func (c *Context) sweep(now time.Time) {
	streams := 0
	for _, d := range c.allDevices() {
		resume(d.sweep(now), true)
		streams += d.countStreams()
	}
	c.windowLimit.Store(c.limit(streams))
}

// limit is the largest window: streams share a quarter of the memory that is
// available.
func (c *Context) limit(streams int) int64 {
	most := int64(windowMax)
	if c.cfg.ReadAhead > 0 {
		most = c.cfg.ReadAhead
	}
	share := memAvailable() / 4 / int64(max(1, streams))
	return max(min(most, share), windowFirst)
}
