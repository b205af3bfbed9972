package rpc

import (
	"errors"
	"io"
	"net/netip"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Conn is one TCP connection. One thread at a time visits it; that thread owns
// every field that says nothing else.
type Conn struct {
	srv  *Server
	fd   int
	slot uint32
	gen  uint32
	peer netip.AddrPort
	// local is what Config.NewConn made.
	local any

	// visits says whether a thread is here: idle, busy, or busy with an event
	// that came meanwhile.
	visits atomic.Int32

	saved   []byte // received, not served yet
	saved0  []byte // the same buffer from its start, for reuse
	out     parked
	waiting int  // calls on waiting threads or in done
	eof     bool // the peer has sent its last byte

	// mu guards closed and done, which waiting threads touch too.
	mu     sync.Mutex
	closed bool
	done   []*waitingCall
}

const (
	connIdle = iota
	connBusy
	connDirty
)

// enter takes the connection for a visit. If another thread is here, it is told
// to look again, and enter returns false.
func (c *Conn) enter() bool {
	for {
		switch c.visits.Load() {
		case connIdle:
			if c.visits.CompareAndSwap(connIdle, connBusy) {
				return true
			}
		case connBusy:
			if c.visits.CompareAndSwap(connBusy, connDirty) {
				return false
			}
		default:
			return false
		}
	}
}

// leave ends a visit. It returns false if an event came meanwhile.
func (c *Conn) leave() bool {
	if c.visits.CompareAndSwap(connBusy, connIdle) {
		return true
	}
	c.visits.Store(connBusy)
	return false
}

// full says that the connection holds as much as it may: no further call is
// taken from it until some of that has left.
func (c *Conn) full() bool { return c.out.bytes >= maxParked || c.waiting >= maxWaiting }

// poke makes the connection ready again, at the end of the epoll's queue. Its
// socket being writable is what makes the event; while it is not, the event
// comes when it becomes so, and until then there is nothing to do here.
func (c *Conn) poke() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pokeLocked()
}

func (c *Conn) pokeLocked() {
	if !c.closed {
		c.srv.poll.rearm(c)
	}
}

// complete is called by a waiting thread that is through with a call.
func (c *Conn) complete(w *waitingCall) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		w.release()
		return
	}
	c.done = append(c.done, w)
	if len(c.done) == 1 {
		c.pokeLocked()
	}
}

// takeDone returns a call that has finished waiting, or nil.
func (c *Conn) takeDone() *waitingCall {
	if c.waiting == 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.done) == 0 {
		return nil
	}
	w := c.done[0]
	n := copy(c.done, c.done[1:])
	c.done[n] = nil
	c.done = c.done[:n]
	c.waiting--
	return w
}

// close ends the connection. The peer's calls that still wait are dropped when
// they come back.
func (c *Conn) close(err error) {
	c.mu.Lock()
	c.closed = true
	for _, w := range c.done {
		w.release()
	}
	c.done = nil
	// Closing the descriptor takes it out of the epoll.
	_ = unix.Close(c.fd)
	c.mu.Unlock()
	c.out.reset()
	c.srv.forget(c, err)
}

// save keeps what was received but not served, for the next visit.
func (c *Conn) save(rest []byte) {
	const keep = 4 << 10
	if len(rest) == 0 {
		if cap(c.saved0) > keep {
			c.saved0 = nil
		}
		c.saved = nil
		return
	}
	c.saved0 = append(c.saved0[:0], rest...)
	c.saved = c.saved0
}

// finished says that the peer (or the server) has ended and everything asked for
// is answered.
func (c *Conn) finished() bool {
	return (c.eof || c.srv.draining.Load()) && c.waiting == 0 && c.out.empty()
}

// expected says that err is an ordinary way for a connection to end.
func expected(err error) bool {
	return err == nil || errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE)
}
