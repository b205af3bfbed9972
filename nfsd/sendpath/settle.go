package sendpath

import (
	"io"

	"golang.org/x/sys/unix"

	"sluice/ioctx"
	"sluice/uring"
)

// addFills adds the splices that fill the pipes to a chain.
func (p *ringed) addFills(ops []*uring.Op) []*uring.Op {
	off := p.off
	for i, pipe := range p.pipes {
		if want := p.wants[i]; want > 0 {
			_, w := pipe.FDs()
			p.fills[i].SQE.PrepSplice(p.fd, uint64(off)+uint64(pipe.Len()), w, uring.CurrentPosition, want, unix.SPLICE_F_NONBLOCK)
			ops = append(ops, &p.fills[i])
		}
		off += int64(pipe.Len() + p.wants[i])
	}
	return ops
}

// fillIndex says which pipe an operation fills; -1 is none.
func (p *ringed) fillIndex(op *uring.Op) int {
	for i := range p.fills {
		if op == &p.fills[i] {
			return i
		}
	}
	return -1
}

// filled accounts for n bytes that came into a pipe. None is the end of the file.
func (p *ringed) filled(i, n int) {
	p.pipes[i].Filled(n)
	p.wants[i] -= n
	p.short = n == 0
}

// notFilled accounts for a splice from the file that failed. A pipe that takes no
// more is full sooner than was planned.
func (p *ringed) notFilled(i int, err unix.Errno) {
	switch {
	case err != unix.EAGAIN:
		p.refused = err
	case p.pipes[i].Len() > 0:
		p.short = true
	}
}

// settle makes do with what the file gave, before anything has left: with what is
// in the pipes, or, if it cannot be spliced, a copy of its beginning, and a header
// that says so.
func (p *ringed) settle() {
	p.trim()
	n, err := p.Len(), error(nil)
	if n == 0 && p.refused != nil {
		p.s.Refused.Add(1)
		n, err = p.copyInstead()
	}
	p.short, p.refused = false, nil
	if p.s.cfg.Amend == nil {
		p.err = io.ErrUnexpectedEOF
		return
	}
	// The connection's copy is left alone: its thread may be moving it.
	p.head = p.s.cfg.Amend(append([]byte(nil), p.head...), p.fd, p.off, n, err)
	p.Pad(-n & 3)
}

// copyInstead reads what fits into a reply of any other call.
func (p *ringed) copyInstead() (int, error) {
	b := make([]byte, min(p.n, InlineRead)+3)
	n, err := ioctx.Read(p.fd, b[:len(b)-3], p.off)
	p.tail = b[:max(n, 0)]
	return n, err
}

// fillInstead is for a payload that the ring does not take: the thread fills it,
// while nobody else knows of the header.
func (p *ringed) fillInstead() {
	head := p.head
	p.head = nil
	if !p.unfilled() {
		return
	}
	planned := p.Len()
	if p.err = p.fill(); p.err != nil || p.Len() == planned {
		return
	}
	n := p.Len()
	if p.s.cfg.Amend == nil {
		p.err = io.ErrUnexpectedEOF
		return
	}
	copy(head, p.s.cfg.Amend(append([]byte(nil), head...), p.fd, p.off, n, nil))
	p.Pad(-n & 3)
}
