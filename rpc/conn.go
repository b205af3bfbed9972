package rpc

import (
	"errors"
	"io"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Conn is one TCP connection. Its home thread alone visits it and owns every
// field that says nothing else.
type Conn struct {
	srv  *Server
	fd   int
	slot uint32
	gen  uint32
	peer netip.AddrPort
	// local is what Config.NewConn made.
	local any

	saved   []byte // received, not served yet
	saved0  []byte // the same buffer from its start, for reuse
	out     parked
	waiting int  // calls on waiting threads or in done
	eof     bool // the peer has sent its last byte
	shut    bool // we have sent ours

	// work is the cost of what was done for the connection so far, for balance.go;
	// moveTo is where the balancer wants it.
	work   atomic.Uint64
	moveTo atomic.Pointer[thread]
	// balanced is the work that the balancer has seen, arrives the pool where it
	// last saw packets arrive; it alone uses them.
	balanced uint64
	arrives  *pool

	// partial says that saved is a part of a call; the other two are for
	// checkPatience alone.
	partial      atomic.Bool
	partialSince time.Time
	partialWork  uint64

	// mu guards the fields below, which other threads touch too. It is taken before
	// connTable.mu.
	mu     sync.Mutex
	home   *thread
	armed  uint32 // what the epoll waits for
	closed bool
	done   []*waitingCall
	sent   bool  // what left in the background has done so, or failed:
	failed error // why
}

// leave ends a visit: the connection waits for what it needs now, or goes to the
// end of the queue if there is more to do. It moves to another thread here if it
// is to.
func (c *Conn) leave(more bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	events := c.interest()
	if more || c.sent || len(c.done) > 0 && c.out.empty() {
		events = anyEvent
	}
	if to := c.moveTo.Load(); to != nil {
		c.moveTo.Store(nil)
		c.move(to, events)
		return
	}
	if events != c.armed {
		c.armed = events
		c.home.poll.arm(c, events)
	}
}

// move gives the connection a new home, which may visit it at once.
func (c *Conn) move(to *thread, events uint32) {
	from := c.home
	if from == to {
		c.armed = events
		from.poll.arm(c, events)
		return
	}
	from.poll.remove(c)
	c.home, c.armed = to, events
	// It fails only for want of kernel memory; then the peer's retransmissions
	// find a dead connection and it comes back with another.
	_ = to.poll.add(c, events)
}

// full says that the connection holds as much as it may: no further call is
// taken from it until some of that has left.
func (c *Conn) full() bool { return c.out.full() || c.waiting >= maxWaiting }

// interest is what the connection waits for after a visit.
func (c *Conn) interest() uint32 {
	var events uint32 // a broken connection is reported unasked
	if !c.out.empty() && c.out.away == 0 {
		events |= unix.EPOLLOUT
	}
	if c.shut || !c.full() && !c.eof {
		events |= unix.EPOLLIN
	}
	return events
}

// anyEvent is always there or will come: while a socket is not writable there is
// nothing to be done for its connection.
const anyEvent = unix.EPOLLIN | unix.EPOLLOUT

// poke has the connection visited.
func (c *Conn) poke() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pokeLocked()
}

func (c *Conn) pokeLocked() {
	if !c.closed && c.armed != anyEvent {
		c.armed = anyEvent
		c.home.poll.arm(c, anyEvent)
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
	c.pokeLocked()
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

// Sent implements [Sent]: what was leaving in the background has left.
func (c *Conn) Sent(err error) {
	c.mu.Lock()
	c.sent, c.failed = true, err
	if !c.closed {
		c.pokeLocked()
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	c.release(err)
}

// takeSent accounts for what has left in the background.
func (c *Conn) takeSent() error {
	if c.out.away == 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.sent {
		return nil
	}
	c.sent = false
	if c.failed != nil {
		c.out.away = 0
		return c.failed
	}
	c.out.landed()
	return nil
}

// close ends the connection. The peer's calls that still wait are dropped when
// they come back.
func (c *Conn) close(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.closed = true
	for _, w := range c.done {
		w.release()
	}
	c.done = nil
	if c.out.away > 0 && !c.sent {
		// The kernel has yet to let go of the descriptor, which must not be another
		// connection's by then. Sent does the rest, soon, since nothing can leave
		// any more.
		c.home.poll.remove(c)
		_ = unix.Shutdown(c.fd, unix.SHUT_RDWR)
		return
	}
	c.release(err)
}

// release gives back what a closed connection holds. Closing the descriptor takes
// it out of the epoll.
func (c *Conn) release(err error) {
	_ = unix.Close(c.fd)
	c.out.reset()
	c.srv.forget(c, err)
}

// save keeps what was received but not served, for the next visit.
func (c *Conn) save(rest []byte) {
	const keep = 4 << 10
	if part := len(rest) > 0 && !c.full(); part != c.partial.Load() {
		c.partial.Store(part)
	}
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

// end ends a finished connection. Closing one whose peer has sent calls that were
// not read would make the kernel reset it, and the peer lose replies that are on
// their way; so our side is closed first, and the rest when the peer's is.
func (c *Conn) end() error {
	if c.eof {
		return io.EOF
	}
	c.shut = true
	c.srv.shut.Add(1)
	_ = unix.Shutdown(c.fd, unix.SHUT_WR) // fails only if the peer has gone
	return nil
}

// discard reads what the peer still sends; io.EOF when it is done.
func discard(fd int, buf []byte) error {
	for range visitCalls {
		n, err := recv(fd, buf)
		switch {
		case err == unix.EAGAIN:
			return nil
		case err != nil && err != unix.EINTR:
			return err
		case err == nil && n == 0:
			return io.EOF
		}
	}
	return nil
}

// expected says that err is an ordinary way for a connection to end.
func expected(err error) bool {
	return err == nil || errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE)
}
