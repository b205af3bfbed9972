package load

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// MaxDepth bounds the calls outstanding on a connection.
	MaxDepth = 1 << slotBits
	slotBits = 10 // of a transaction identifier; the rest counts

	// wholeReplies is up to which READ size replies are received with their data,
	// many at a time: copying 16 KiB costs less than two more system calls.
	wholeReplies = 16 << 10
	// bigGulp and smallGulp are how much is received at once with whole replies, and
	// where most of a reply is to be discarded: a mark and a head, and little more.
	bigGulp   = 256 << 10
	smallGulp = markLen + fixedHead
)

var errClosed = errors.New("the server closed the connection")

// slot is a call that may be outstanding.
type slot struct {
	next  Next
	xid   uint32
	busy  bool
	start time.Duration // when it was sent
}

// conn is a connection to the server, owned by one thread.
type conn struct {
	fd     int
	thread *thread
	verify func(file int, off uint64, data []byte) error

	slots []slot
	free  []int // slots
	count uint32

	out     []byte // calls to send
	sent    int    // bytes of out
	writing bool   // waits for EPOLLOUT
	ended   bool   // the source is exhausted
	replies replies
	gulp    int
	heard   time.Duration // when the last reply came
}

func newConn(fd int, t *thread, o *Options) *conn {
	c := &conn{fd: fd, thread: t, slots: make([]slot, o.Depth), gulp: smallGulp, verify: o.Verify}
	if o.MaxCount <= wholeReplies || o.Verify != nil {
		c.gulp = bigGulp
	}
	for i := range c.slots {
		c.free = append(c.free, i)
	}
	c.replies = replies{conn: c, max: int(o.MaxCount) + slack}
	return c
}

func (c *conn) outstanding() int { return len(c.slots) - len(c.free) }

// slotOf finds the outstanding call with this transaction identifier.
func (c *conn) slotOf(xid uint32) *slot {
	i := int(xid & (MaxDepth - 1))
	if i >= len(c.slots) || !c.slots[i].busy || c.slots[i].xid != xid {
		return nil
	}
	return &c.slots[i]
}

// fill makes calls with all free slots and sends them together.
func (c *conn) fill(now time.Duration) error {
	for len(c.free) > 0 && !c.ended {
		if c.thread.run.stop.Load() {
			c.ended = true
			break
		}
		next, ok := c.thread.run.o.Source.Next()
		if !ok {
			c.ended = true
			break
		}
		i := c.free[len(c.free)-1]
		c.free = c.free[:len(c.free)-1]
		c.count++
		c.slots[i] = slot{next: next, xid: c.count<<slotBits | uint32(i), busy: true, start: now}
		c.append(&c.slots[i])
	}
	return c.flush()
}

func (c *conn) append(s *slot) {
	n := len(c.out)
	c.out = append(c.out, s.next.Call.Bytes...)
	be.PutUint32(c.out[n+markLen:], s.xid)
	if at := s.next.Call.OffsetAt; at > 0 {
		be.PutUint64(c.out[n+at:], s.next.Offset)
		be.PutUint32(c.out[n+at+8:], s.next.Count)
	}
}

// flush sends what the socket takes, and has the thread told when it takes more.
func (c *conn) flush() error {
	for c.sent < len(c.out) {
		n, err := send(c.fd, c.out[c.sent:])
		if errors.Is(err, unix.EAGAIN) {
			return c.wantWrite(true)
		}
		if err != nil {
			return c.lost(err)
		}
		c.sent += n
	}
	c.out, c.sent = c.out[:0], 0
	return c.wantWrite(false)
}

func (c *conn) wantWrite(want bool) error {
	if want == c.writing {
		return nil
	}
	c.writing = want
	ev := c.event()
	if want {
		ev.Events |= unix.EPOLLOUT
	}
	return unix.EpollCtl(c.thread.epoll, unix.EPOLL_CTL_MOD, c.fd, &ev)
}

func (c *conn) event() unix.EpollEvent {
	return unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(c.thread.index[c])}
}

// receiveAll takes what the socket has: at most rounds pieces, so that one
// connection does not starve the others of its thread.
func (c *conn) receiveAll() error {
	const rounds = 16
	for range rounds {
		n, asked, err := c.receive()
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			return nil
		}
		if err != nil {
			return err
		}
		if n < asked {
			return nil // there was no more
		}
	}
	return nil
}

// receive takes one piece.
func (c *conn) receive() (n, asked int, err error) {
	const worthACall = 1 << 10 // to discard less is no cheaper than to copy it
	if skip := c.replies.discardable(); skip >= worthACall {
		asked = min(skip, len(c.thread.scratch))
		if n, err = discard(c.fd, c.thread.scratch, asked); n > 0 {
			c.thread.heard = c.thread.now()
			err = c.replies.discarded(n)
		}
	} else {
		asked = c.gulp
		if n, err = receive(c.fd, c.thread.buf[:asked]); n > 0 {
			c.thread.heard = c.thread.now()
			err = c.replies.feed(c.thread.buf[:n])
		}
	}
	switch {
	case err == nil && n == 0:
		err = c.lost(errClosed)
	case n == 0 && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR):
		err = c.lost(err)
	}
	return n, asked, err
}

// complete frees the slot of a call whose reply has come.
func (c *conn) complete(s *slot) {
	t := c.thread
	s.busy = false
	c.free = append(c.free, int(s.xid&(MaxDepth-1)))
	c.heard = t.heard
	t.latency.RecordValue(int64(t.heard - s.start))
	t.calls++
	t.bytes += uint64(s.next.Count)
}

func (c *conn) lost(err error) error {
	if errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE) {
		err = errClosed
	}
	return fmt.Errorf("%w, with %d calls outstanding", err, c.outstanding())
}
