package rpc

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// thread is a server thread: a goroutine locked to an OS thread that visits the
// connections whose home it is when they are ready.
type thread struct {
	callEnv
	srv   *Server
	id    int
	place Placement
	pool  *pool
	poll  *poller
	in    []byte
	// calls and moved count the calls and the bytes of replies of this visit.
	calls, moved int
	// tid is the OS thread, and sharePercent how busy it was in the balancer's
	// last period.
	tid          atomic.Int32
	sharePercent atomic.Int32
}

const maxEvents = 32

func newThread(s *Server, id int) (*thread, error) {
	poll, err := newPoller()
	if err != nil {
		return nil, err
	}
	t := &thread{srv: s, id: id, place: s.cfg.Place(id), poll: poll, in: make([]byte, recvBuffer)}
	t.table, t.counts = s.table, s.newCounters()
	t.call.Reply = make([]byte, 0, outBuffer)
	return t, nil
}

// loop serves until the server stops. The OS thread ends with it, since handlers
// may have changed its credentials.
func (t *thread) loop() {
	runtime.LockOSThread()
	t.place.begin(fmt.Sprintf("sl-t%02d", t.id), t.in, t.call.Reply)
	t.tid.Store(int32(unix.Gettid()))
	t.call.Thread = t.srv.cfg.NewThread()
	var events [maxEvents]unix.EpollEvent
	for !t.srv.stopped.Load() {
		n, err := t.poll.wait(events[:])
		if err != nil && err != unix.EINTR {
			panic(fmt.Sprintf("rpc: epoll_wait: %v", err)) // only a bad descriptor or address can do this
		}
		for i := range events[:max(n, 0)] {
			t.dispatch(&events[i])
		}
	}
}

func (t *thread) dispatch(ev *unix.EpollEvent) {
	slot, gen := uint32(ev.Fd), uint32(ev.Pad)
	if gen == listenerGen {
		t.srv.accept(int(slot))
		return
	}
	c := t.srv.conns.get(slot, gen)
	if c == nil {
		return
	}
	// The thread that gave the connection to this one has written to moveTo last:
	// what it wrote before is seen from here on.
	_ = c.moveTo.Load()
	if ev.Events&(unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		c.close(nil) // both directions are gone: nothing can be sent any more
		return
	}
	more, err := t.visit(c)
	if err != nil {
		c.close(err)
		return
	}
	c.leave(more)
}

// visit does what can be done for a connection now, within the bounds of one
// turn; more says that the turn ended first. An error, which may be io.EOF,
// ends the connection.
func (t *thread) visit(c *Conn) (more bool, err error) {
	if c.shut {
		return false, discard(c.fd, t.in)
	}
	t.call.Peer, t.call.Conn, t.call.conn = c.peer, c.local, c
	t.calls, t.moved = 0, 0
	err = c.takeSent()
	if err == nil {
		err = c.out.flush(c.fd, c)
	}
	if err == nil {
		err = t.serveDone(c)
	}
	if err == nil {
		err = t.serve(c)
	}
	if err == nil {
		err = t.flush(c, false)
	}
	t.call.Reply = t.call.Reply[:0]
	c.work.Store(c.work.Load() + uint64(t.calls*callCost+t.moved/bytesPerCost))
	if err == nil && !t.turnOver() && c.finished() {
		err = c.end()
	}
	return t.turnOver(), err
}

func (t *thread) turnOver() bool { return t.calls >= visitCalls || t.moved >= visitBytes }

// serveDone answers calls that have finished waiting.
func (t *thread) serveDone(c *Conn) error {
	for !c.out.full() && !t.turnOver() {
		w := c.takeDone()
		if w == nil {
			return nil
		}
		if err := t.finish(c, w); err != nil {
			return err
		}
	}
	return nil
}

// serve receives and answers calls until the peer has sent no more, the
// connection is full, or its turn is over.
func (t *thread) serve(c *Conn) error {
	n := copy(t.in, c.saved)
	for drained := false; ; {
		rest, err := t.walk(c, t.in[:n])
		if err != nil {
			return err
		}
		n = copy(t.in, rest)
		if drained || c.full() || t.turnOver() || c.srv.draining.Load() {
			c.save(t.in[:n])
			return nil
		}
		got, err := recv(c.fd, t.in[n:])
		switch {
		case err == unix.EAGAIN:
			drained = true
		case err == unix.EINTR:
		case err != nil:
			return err
		case got == 0:
			c.eof, drained = true, true
		default:
			// A short read means that the socket is empty; what has come since
			// makes an event when the connection is armed.
			drained = got < len(t.in)-n
			n += got
		}
	}
}

// walk answers the complete records in b and returns what is left of it.
func (t *thread) walk(c *Conn, b []byte) ([]byte, error) {
	for len(b) >= markLen && !c.full() && !t.turnOver() {
		rec, used, err := nextRecord(b)
		if err != nil {
			return nil, err
		}
		if used == 0 {
			break
		}
		if err := t.answer(c, rec, 0, false); err != nil {
			return nil, err
		}
		b = b[used:]
	}
	return b, nil
}

// errNotACall ends a connection whose peer does not speak RPC.
var errNotACall = errors.New("record too short for an RPC call")

// answer runs the call in rec and puts its reply into the batch.
func (t *thread) answer(c *Conn, rec []byte, attempt int, gaveUp bool) error {
	if len(t.call.Reply) >= flushAt {
		if err := t.flush(c, false); err != nil {
			return err
		}
	}
	t.calls++
	mark := len(t.call.Reply)
	t.call.Reply = append(t.call.Reply, 0, 0, 0, 0)
	t.call.Attempt, t.call.GaveUp, t.call.WaitClass = attempt, gaveUp, 0
	res, drop := t.run(rec)
	switch {
	case drop:
		return errNotACall
	case res == Wait:
		t.call.Reply = t.call.Reply[:mark]
		t.park(c, rec, attempt+1)
		return nil
	case res == Parked:
		t.call.Reply = t.call.Reply[:mark]
		return nil
	case len(t.call.Reply) == mark+markLen: // nothing to answer
		t.call.Reply = t.call.Reply[:mark]
		return nil
	}
	return t.enqueue(c, mark)
}

// park hands the call to a waiting thread.
func (t *thread) park(c *Conn, rec []byte, attempt int) {
	c.waiting++
	w := newWaitingCall(c, rec)
	w.peer, w.local = c.peer, c.local
	w.class, w.attempt = t.call.WaitClass, attempt
	t.srv.waiters.submit(w)
}

// finish answers a call that comes back from a waiting thread.
func (t *thread) finish(c *Conn, w *waitingCall) error {
	defer w.release()
	if w.again {
		return t.answer(c, w.rec, w.attempt, w.gaveUp)
	}
	t.calls++
	if len(t.call.Reply)+len(w.reply) > flushAt {
		if err := t.flush(c, false); err != nil {
			return err
		}
	}
	mark := len(t.call.Reply)
	t.call.Reply = append(t.call.Reply, w.reply...)
	t.call.Payload, w.payload = w.payload, nil
	return t.enqueue(c, mark)
}

// enqueue completes the reply that starts at mark and, if it has a payload,
// sends both.
func (t *thread) enqueue(c *Conn, mark int) error {
	p := t.call.Payload
	if p == nil {
		putMark(t.call.Reply[mark:], len(t.call.Reply)-mark-markLen)
		return nil
	}
	t.call.Payload = nil
	n := p.Len()
	pad := -n & 3
	putMark(t.call.Reply[mark:], len(t.call.Reply)-mark-markLen+n+pad)
	return t.sendPayload(c, p, pad)
}

// sendPayload sends the batch and p behind it. It owns p.
func (t *thread) sendPayload(c *Conn, p Payload, pad int) error {
	if _, ok := p.(BackgroundPayload); ok {
		c.out.add(t.call.Reply)
		t.call.Reply = t.call.Reply[:0]
		c.out.addPayload(p, pad)
		return c.out.flush(c.fd, c)
	}
	if err := t.flush(c, true); err != nil {
		p.Release()
		return err
	}
	for c.out.empty() && p.Len() > 0 {
		n, err := p.SendTo(c.fd, pad > 0)
		t.moved += n
		if err == unix.EAGAIN {
			break
		}
		if err != nil && err != unix.EINTR {
			p.Release()
			return err
		}
	}
	if p.Len() > 0 {
		c.out.addPayload(p, pad)
		return nil
	}
	p.Release()
	t.call.Reply = append(t.call.Reply, zeros[:pad]...)
	return nil
}

// flush sends the batch, or parks what the socket does not take.
func (t *thread) flush(c *Conn, more bool) error {
	b := t.call.Reply
	t.call.Reply = b[:0]
	t.moved += len(b)
	flags := 0
	if more {
		flags = unix.MSG_MORE
	}
	for len(b) > 0 && c.out.empty() {
		n, err := send(c.fd, b, flags)
		b = b[n:]
		if err == unix.EAGAIN {
			break
		}
		if err != nil && err != unix.EINTR {
			return err
		}
	}
	c.out.add(b)
	return nil
}
