package sendpath

import (
	"golang.org/x/sys/unix"

	"sluice/ioctx"
	"sluice/rpc"
	"sluice/uring"
)

// ringed is pipes that are filled and leave through a ring, as a chain of linked
// operations: splice the file to the pipes, wait for room in the socket if it was
// full, send the header, splice the pipes to the socket, send the tail. The header
// says how much follows; a file that has become shorter makes the first splice fall
// short, which breaks the chain, so that the header never leaves with a count that
// is not true (settle). What else a broken chain has not done, another one does.
// From Start until the end of the last chain all of it belongs to the ring's thread.
type ringed struct {
	spliced
	ring *ring
	file *ioctx.File // to be released once the pipes are filled
	sock int
	head []byte
	more bool
	done rpc.Sent

	fills, bodies        [pipesMax]uring.Op
	wait, header, tailer uring.Op
	chain                [opsPerPayload]*uring.Op
	pending              int   // operations of the chain that have not completed
	full                 bool  // the socket was full
	short                bool  // the file has no more
	refused              error // why it cannot be spliced
}

func newRinged(r *ring) *ringed {
	p := &ringed{ring: r}
	done := p.completed
	for _, op := range []*uring.Op{&p.wait, &p.header, &p.tailer} {
		op.Keep, op.Done = p, done
	}
	for i := range pipesMax {
		p.fills[i].Keep, p.fills[i].Done = p, done
		p.bodies[i].Keep, p.bodies[i].Done = p, done
	}
	return p
}

// viaRing plans a read. With filled it fills the pipes too, since that may wait,
// which is not for the few workers of the ring.
func (s *Sender) viaRing(lane, fd int, off int64, n int, filled bool) (rpc.Payload, error) {
	begin := clock()
	p := s.rings[lane%len(s.rings)].pool.Get().(*ringed)
	err := p.plan(s, fd, off, n)
	if err == nil && filled {
		err = p.fill()
	}
	if err != nil {
		p.Release()
		return nil, err
	}
	p.held = clock() - begin
	return p, nil
}

// Unfilled is a payload whose data has yet to be read.
type Unfilled interface {
	// Keep takes over the caller's reference to the file, until it is read.
	Keep(file *ioctx.File)
}

// Keep implements Unfilled.
func (p *ringed) Keep(file *ioctx.File) { p.file = file }

// Room implements rpc.BackgroundPayload. While there are pipes in plenty, the next
// reply is made ready while this one leaves; a quarter of them may go to that.
func (p *ringed) Room() bool {
	pipes := p.s.io.Pipes
	return pipes.InUse() < pipes.Limit()/4
}

// Pad implements rpc.BackgroundPayload.
func (p *ringed) Pad(n int) {
	if len(p.tail) == 0 {
		p.tail = p.page[:0]
	}
	p.tail = append(p.tail, 0, 0, 0)[:len(p.tail)+n]
}

// Start implements rpc.BackgroundPayload.
func (p *ringed) Start(sock int, head []byte, more bool, done rpc.Sent) bool {
	begin := clock()
	s, held := p.s, p.held
	p.sock, p.head, p.more, p.done = sock, head, more, done
	p.full, p.short, p.held = false, false, 0
	if err := p.submit(); err != nil {
		p.done = nil
		s.ringRefused(err)
		p.fillInstead()
		return false
	}
	// It is not ours any more.
	s.Ringed.Add(1)
	s.Held.observe(held + clock() - begin)
	return true
}

// submit puts together what is left.
func (p *ringed) submit() error {
	ops := p.addFills(p.chain[:0])
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
		r, _ := pipe.FDs()
		p.bodies[i].SQE.PrepSplice(r, uring.CurrentPosition, p.sock, uring.CurrentPosition, pipe.Len()+p.wants[i], flags)
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
	case p.fillIndex(op) >= 0:
		p.notFilled(p.fillIndex(op), err)
	case err == unix.EAGAIN:
		p.full = true
	default:
		p.err = err
	}
}

// progress accounts for what an operation has done. A send that fell short has met
// a full socket.
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
		if i := p.fillIndex(op); i >= 0 {
			p.filled(i, n)
		} else {
			p.drained(n)
		}
	}
}

func (p *ringed) drained(n int) {
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

// proceed goes on with what is left, or ends the sending.
func (p *ringed) proceed() {
	if p.short || p.refused != nil {
		p.settle()
	}
	if p.file != nil && !p.unfilled() {
		p.file.Release()
		p.file = nil
	}
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
	if p.file != nil {
		p.file.Release()
	}
	p.file, p.head, p.refused, p.short = nil, nil, nil, false
	p.drop()
	p.ring.pool.Put(p)
}
