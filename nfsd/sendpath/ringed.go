package sendpath

import (
	"time"

	"golang.org/x/sys/unix"

	"sluice/rpc"
	"sluice/uring"
)

// ringed is filled pipes that leave through a ring, as a chain of linked
// operations: wait for room in the socket if it was full, send the header, splice
// the pipes to the socket, send the tail. What a chain has not done, because an
// operation fell short and broke the link, another one does. From Start until the
// end of the last chain all of it belongs to the ring's thread.
type ringed struct {
	spliced
	ring *ring
	sock int
	head []byte
	more bool
	done rpc.Sent

	wait, header, tailer uring.Op
	bodies               [pipesMax]uring.Op
	chain                [opsPerPayload]*uring.Op
	pending              int  // operations of the chain that have not completed
	full                 bool // the socket was full
	err                  error
}

func newRinged(r *ring) *ringed {
	p := &ringed{ring: r}
	done := p.completed
	for _, op := range []*uring.Op{&p.wait, &p.header, &p.tailer} {
		op.Keep, op.Done = p, done
	}
	for i := range p.bodies {
		p.bodies[i].Keep, p.bodies[i].Done = p, done
	}
	return p
}

func (s *Sender) viaRing(lane, fd int, off int64, n int) (rpc.Payload, error) {
	p := s.rings[lane%len(s.rings)].pool.Get().(*ringed)
	if err := p.fill(s, fd, off, n); err != nil {
		p.Release()
		return nil, err
	}
	return p, nil
}

// Start implements rpc.BackgroundPayload.
func (p *ringed) Start(sock int, head []byte, more bool, done rpc.Sent) bool {
	begin := time.Now()
	s, held := p.s, p.held
	p.sock, p.head, p.more, p.done = sock, head, more, done
	p.full, p.err, p.held = false, nil, 0
	if err := p.submit(); err != nil {
		p.head, p.done = nil, nil
		s.ringRefused(err)
		return false
	}
	// It is not ours any more.
	s.Ringed.Add(1)
	s.Held.observe(held + time.Since(begin))
	return true
}

// submit puts together what is left.
func (p *ringed) submit() error {
	ops := p.chain[:0]
	if p.full {
		p.wait.SQE.PrepPollAdd(p.sock, unix.POLLOUT, 0)
		ops = append(ops, &p.wait)
	}
	if len(p.head) > 0 {
		p.header.SQE.PrepSend(p.sock, p.head, sendFlags(true))
		ops = append(ops, &p.header)
	}
	for i, pipe := range p.pipes {
		flags := uint32(unix.SPLICE_F_NONBLOCK)
		if p.more || i < len(p.pipes)-1 || len(p.tail) > 0 {
			flags |= unix.SPLICE_F_MORE
		}
		p.bodies[i].SQE.PrepSplice(pipe.FD(), uring.CurrentPosition, p.sock, uring.CurrentPosition, pipe.Len(), flags)
		ops = append(ops, &p.bodies[i])
	}
	if len(p.tail) > 0 {
		p.tailer.SQE.PrepSend(p.sock, p.tail, sendFlags(p.more))
		ops = append(ops, &p.tailer)
	}
	p.pending = len(ops)
	return p.ring.loop.SubmitChain(ops...)
}

// sendFlags are those of a send that waits, without a worker, until all has left.
func sendFlags(more bool) uint32 {
	if more {
		return unix.MSG_NOSIGNAL | unix.MSG_WAITALL | unix.MSG_MORE
	}
	return unix.MSG_NOSIGNAL | unix.MSG_WAITALL
}

// completed is called for each operation of a chain, in order.
func (p *ringed) completed(op *uring.Op, c uring.CQE) {
	if c.Res >= 0 {
		p.progress(op, int(c.Res))
	} else {
		p.fail(op, unix.Errno(-c.Res))
	}
	if p.pending--; p.pending == 0 {
		p.proceed()
	}
}

// fail accounts for an operation that did nothing.
func (p *ringed) fail(op *uring.Op, err unix.Errno) {
	switch {
	case err == unix.ECANCELED || err == unix.EINTR: // the next chain does it
	case err == unix.EINVAL && op != p.chain[0]: // likewise: the chain was taken in part (uring.Sever)
	case err == unix.EAGAIN:
		p.full = true
	default:
		p.err = err
	}
}

// progress accounts for what an operation has done. One that fell short has met a
// full socket.
func (p *ringed) progress(op *uring.Op, n int) {
	switch op {
	case &p.wait:
		p.full = false
	case &p.header:
		p.head = p.head[n:]
		p.full = len(p.head) > 0
	case &p.tailer:
		p.tail = p.tail[n:]
		p.full = len(p.tail) > 0
	default:
		if n == 0 {
			p.err = unix.EIO // the pipe was emptied by nobody we know
			return
		}
		pipe := p.pipes[0]
		pipe.Drained(n)
		if p.full = pipe.Len() > 0; !p.full {
			p.next()
		}
	}
}

// proceed goes on with what is left, or ends the sending.
func (p *ringed) proceed() {
	if p.err == nil && len(p.head)+len(p.pipes)+len(p.tail) > 0 {
		if p.err = p.submit(); p.err == nil {
			return
		}
	}
	done, err := p.done, p.err
	p.head, p.done = nil, nil
	done.Sent(err) // after this it is the connection's
}

// Release implements rpc.Payload.
func (p *ringed) Release() {
	p.drop()
	p.ring.pool.Put(p)
}
