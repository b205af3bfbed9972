package seekdisk

import (
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Stats count what a drive's head did.
type Stats struct {
	Requests uint64 `json:"requests"`
	Seeks    uint64 `json:"seeks"`
	Bytes    uint64 `json:"bytes"`
	// Busy is how long the head took for the seeks and transfers of the requests,
	// in nanoseconds. Unlike the time that passed, it does not depend on what else
	// the machine did.
	Busy time.Duration `json:"busy_ns"`
	// Waiting is how many requests the head has not got to, Deepest the most
	// that ever were at once.
	Waiting int `json:"waiting"`
	Deepest int `json:"deepest"`
	// Sizes counts requests by their size in KiB.
	Sizes map[int]uint64 `json:"sizes_kib"`
}

// MeanKiB is the mean size of a request.
func (s Stats) MeanKiB() float64 {
	if s.Requests == 0 {
		return 0
	}
	return float64(s.Bytes) / 1024 / float64(s.Requests)
}

// HeadRate is what the head would have delivered without a pause, in bytes per
// second.
func (s Stats) HeadRate() float64 {
	if s.Busy == 0 {
		return 0
	}
	return float64(s.Bytes) / s.Busy.Seconds()
}

// request is a read that waits for the head.
type request struct {
	off, n  int64
	arrived time.Duration
	done    chan syscall.Errno // has room for the result
}

// extent is a range of bytes.
type extent struct{ off, n int64 }

func (e extent) overlaps(off, n int64) bool { return off < e.off+e.n && e.off < off+n }

// drive serves requests with a head in real time.
type drive struct {
	mu      sync.Mutex
	changed sync.Cond // queue, stalled or closed
	head    head
	queue   []*request
	stats   Stats
	bad     []extent
	stalled bool
	release *time.Timer // of a stall with an end
	closed  bool
}

func newDrive(o Options) *drive {
	d := &drive{head: newHead(o)}
	d.changed.L = &d.mu
	d.stats.Sizes = make(map[int]uint64)
	go d.run()
	return d
}

// read waits until the head has passed n bytes at off.
func (d *drive) read(off, n int64) syscall.Errno {
	r := &request{off: off, n: n, arrived: monotonic(), done: make(chan syscall.Errno, 1)}
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return syscall.EIO
	}
	d.queue = append(d.queue, r)
	d.stats.Deepest = max(d.stats.Deepest, len(d.queue))
	d.mu.Unlock()
	d.changed.Broadcast()
	return <-r.done
}

// write waits only for the end of a stall.
func (d *drive) write() syscall.Errno {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.stalled && !d.closed {
		d.changed.Wait()
	}
	if d.closed {
		return syscall.EIO
	}
	return 0
}

// run is the life of the head, on a thread that wakes up in time.
func (d *drive) run() {
	runtime.LockOSThread() // and let the thread go with the goroutine
	// Without this the kernel adds up to 50 µs to every sleep (prctl(2)).
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	for {
		r, w, errno := d.next()
		if r == nil {
			return
		}
		sleepUntil(w.end)
		r.done <- errno
	}
}

// next takes a request off the queue; nil when the drive is closed.
func (d *drive) next() (*request, work, syscall.Errno) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for !d.closed && (d.stalled || len(d.queue) == 0) {
		d.changed.Wait()
	}
	if d.closed {
		for _, r := range d.queue {
			r.done <- syscall.EIO
		}
		d.queue = nil
		return nil, work{}, 0
	}
	i := d.head.pick(d.queue)
	r := d.queue[i]
	d.queue = slices.Delete(d.queue, i, i+1)
	w := d.head.serve(r, monotonic())
	d.count(r, w)
	for _, b := range d.bad {
		if b.overlaps(r.off, r.n) {
			return r, w, syscall.EIO
		}
	}
	return r, w, 0
}

func (d *drive) count(r *request, w work) {
	d.stats.Requests++
	d.stats.Bytes += uint64(r.n)
	d.stats.Busy += w.cost
	d.stats.Sizes[int(r.n>>10)]++
	if w.sought {
		d.stats.Seeks++
	}
}

// stall lets requests wait for the time, or until unstall if it is 0.
func (d *drive) stall(t time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.setStalled(true)
	if t > 0 {
		d.release = time.AfterFunc(t, d.unstall)
	}
}

func (d *drive) unstall() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.setStalled(false)
}

// setStalled ends whatever stall there was, and so its timer.
func (d *drive) setStalled(on bool) {
	if d.release != nil {
		d.release.Stop()
		d.release = nil
	}
	d.stalled = on
	d.changed.Broadcast()
}

// fail makes reads that touch the range fail with EIO.
func (d *drive) fail(e extent) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.bad = append(d.bad, e)
}

func (d *drive) heal() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.bad = nil
}

func (d *drive) snapshot() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.stats
	s.Waiting = len(d.queue)
	s.Sizes = make(map[int]uint64, len(d.stats.Sizes))
	for k, v := range d.stats.Sizes {
		s.Sizes[k] = v
	}
	return s
}

func (d *drive) reset() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stats = Stats{Sizes: make(map[int]uint64)}
}

// close fails whatever waits and whatever comes.
func (d *drive) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.setStalled(false)
	d.closed = true
}

func monotonic() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // cannot fail
	return time.Duration(t.Nano())
}

func sleepUntil(t time.Duration) {
	ts := unix.NsecToTimespec(int64(t))
	for unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &ts, nil) == unix.EINTR {
	}
}
