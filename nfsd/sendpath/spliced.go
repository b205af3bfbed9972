package sendpath

import (
	"sync"
	"time"

	"sluice/ioctx"
	"sluice/rpc"
)

// spliced is pipes with data, one if it holds the read, and the bytes that did
// not fit.
type spliced struct {
	s      *Sender
	room   [pipesMax]*ioctx.Pipe
	pipes  []*ioctx.Pipe // of room, those not empty yet
	tail   []byte        // of page
	page   [4096]byte
	held   time.Duration // for how long filling has held the thread
	sample sample
}

var splicedPool = sync.Pool{New: func() any { return new(spliced) }}

func (s *Sender) splice(fd int, off int64, n int, m sample) (rpc.Payload, error) {
	p := splicedPool.Get().(*spliced)
	if err := p.fill(s, fd, off, n); err != nil {
		p.Release()
		return nil, err
	}
	p.sample = m
	s.Spliced.Add(1)
	return p, nil
}

// fill takes pipes and fills them. Where pipes cannot be made large enough, for
// want of CAP_SYS_RESOURCE, it takes several. A read that does not begin at a
// page's start takes one slot more than the pipe may have; the last few bytes are
// copied. An error means that there is nothing.
func (p *spliced) fill(s *Sender, fd int, off int64, n int) error {
	begin := time.Now()
	p.s, p.pipes = s, p.room[:0]
	end := off + int64(n)
	for off < end && len(p.pipes) < pipesMax {
		left := int(end - off)
		if len(p.pipes) > 0 && left <= len(p.page) {
			if m, err := ioctx.Read(fd, p.page[:left], off); err == nil {
				p.tail = p.page[:m]
			}
			break
		}
		got, full, err := p.fillOne(fd, off, left)
		if err != nil && len(p.pipes) == 0 {
			return err
		}
		if off += int64(got); err != nil || !full {
			break
		}
	}
	p.held = time.Since(begin)
	return nil
}

// fillOne fills one more pipe; full says that it took no more, not that there was
// no more.
func (p *spliced) fillOne(fd int, off int64, n int) (got int, full bool, err error) {
	pipe, err := p.s.io.Pipes.Get()
	if err != nil {
		return 0, false, err
	}
	got, err = pipe.Fill(fd, off, n)
	if err != nil || got == 0 {
		pipe.Release()
		return 0, false, err
	}
	p.pipes = append(p.pipes, pipe)
	return got, got+len(p.page) > pipe.Size(), nil
}

// Len implements rpc.Payload.
func (p *spliced) Len() int {
	n := len(p.tail)
	for _, pipe := range p.pipes {
		n += pipe.Len()
	}
	return n
}

// SendTo implements rpc.Payload.
func (p *spliced) SendTo(sock int, more bool) (int, error) {
	begin := time.Now()
	n, err := p.sendTo(sock, more)
	p.s.Held.observe(p.held + time.Since(begin))
	p.held = 0
	if p.sample.class != nil {
		p.sample.end(p.s, p.Len() == 0)
	}
	return n, err
}

func (p *spliced) sendTo(sock int, more bool) (sent int, err error) {
	for len(p.pipes) > 0 {
		n, err := p.pipes[0].Drain(sock, more || len(p.pipes) > 1 || len(p.tail) > 0)
		sent += n
		if err != nil {
			return sent, err
		}
		p.next()
	}
	if len(p.tail) == 0 {
		return sent, nil
	}
	n, err := rpc.Send(sock, p.tail, more)
	p.tail = p.tail[n:]
	return sent + n, err
}

// next gives back the first pipe.
func (p *spliced) next() {
	p.pipes[0].Release()
	p.pipes[0] = nil
	p.pipes = p.pipes[1:]
}

// Release implements rpc.Payload.
func (p *spliced) Release() {
	p.drop()
	splicedPool.Put(p)
}

// drop gives back the pipes.
func (p *spliced) drop() {
	for len(p.pipes) > 0 {
		p.next()
	}
	p.s, p.tail, p.sample = nil, nil, sample{}
}
