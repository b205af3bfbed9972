package load

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"
)

const (
	// discardMax is how much is discarded at once, in bytes.
	discardMax = 4 << 20
	// tick is how often a thread looks whether it is to stop.
	tick = 50 * time.Millisecond
)

// thread drives some of the connections.
type thread struct {
	run     *run
	epoll   int
	conns   []*conn
	index   map[*conn]int
	buf     []byte
	scratch []byte // see discard
	latency *hdrhistogram.Histogram
	heard   time.Duration // when the piece at hand was received

	calls, bytes uint64
	// shownCalls and shownBytes are copies for those who watch.
	shownCalls, shownBytes atomic.Uint64
}

func newThread(r *run) (*thread, error) {
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	return &thread{run: r, epoll: ep, index: make(map[*conn]int), latency: newHistogram(),
		buf: make([]byte, bigGulp), scratch: make([]byte, discardMax)}, nil
}

func (t *thread) add(c *conn) error {
	t.index[c] = len(t.conns)
	t.conns = append(t.conns, c)
	ev := c.event()
	return unix.EpollCtl(t.epoll, unix.EPOLL_CTL_ADD, c.fd, &ev)
}

func (t *thread) close() {
	for _, c := range t.conns {
		unix.Close(c.fd)
	}
	unix.Close(t.epoll)
}

// now is the time since the run began.
func (t *thread) now() time.Duration { return time.Since(t.run.began) }

// loop makes calls until there are no more, and returns when the last reply has
// come.
func (t *thread) loop() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer t.show()
	open := 0
	for _, c := range t.conns {
		c.heard = t.now()
		if err := c.fill(c.heard); err != nil {
			return err
		}
		if !c.done() {
			open++
		}
	}
	events := make([]unix.EpollEvent, min(len(t.conns), 256))
	looked := t.now()
	for open > 0 {
		n, err := unix.EpollWait(t.epoll, events, int(tick.Milliseconds()))
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		for _, ev := range events[:max(n, 0)] {
			c := t.conns[ev.Fd]
			if err := t.visit(c); err != nil {
				return err
			}
			if c.done() {
				open--
				if err := unix.EpollCtl(t.epoll, unix.EPOLL_CTL_DEL, c.fd, nil); err != nil {
					return err
				}
			}
		}
		if now := t.now(); now-looked >= tick {
			looked = now
			t.show()
			if err := t.look(now); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *thread) visit(c *conn) error {
	if err := c.receiveAll(); err != nil {
		return err
	}
	if len(c.free) == 0 && !c.writing {
		return nil
	}
	return c.fill(t.now())
}

// done says that the connection has nothing more to do.
func (c *conn) done() bool { return c.ended && c.outstanding() == 0 }

func (t *thread) show() {
	t.shownCalls.Store(t.calls)
	t.shownBytes.Store(t.bytes)
}

// look gives up if the run was cut short, or the server is silent.
func (t *thread) look(now time.Duration) error {
	if t.run.abort.Load() {
		return errAborted
	}
	for _, c := range t.conns {
		if silent := now - c.heard; c.outstanding() > 0 && silent > t.run.o.Timeout {
			return fmt.Errorf("no reply for %v, with %d calls outstanding", t.run.o.Timeout, c.outstanding())
		}
	}
	return nil
}

// newHistogram counts latencies in nanoseconds with three digits; those over a
// minute count as a minute.
func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(100, int64(time.Minute), 3)
}
