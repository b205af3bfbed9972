package sendpath

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"sluice/ioctx"
	"sluice/rpc"
)

// spliced is pipes with data, one if it holds the read, and the bytes that did
// not fit. plan takes the pipes, fill fills them.
type spliced struct {
	s    *Sender
	fd   int
	off  int64
	n    int // bytes asked for
	room [pipesMax]*ioctx.Pipe
	// pipes is the part of room not empty yet, and wants how much is still to come
	// into each. All is filled before anything leaves.
	pipes  []*ioctx.Pipe
	wants  [pipesMax]int
	tail   []byte // of page
	page   [tailMax + 3]byte
	err    error
	held   time.Duration // for how long making it has held the thread
	sample sample
}

var splicedPool = sync.Pool{New: func() any { return new(spliced) }}

func (s *Sender) splice(fd int, off int64, n int, m sample) (rpc.Payload, error) {
	begin := clock()
	p := splicedPool.Get().(*spliced)
	err := p.plan(s, fd, off, n)
	if err == nil {
		err = p.fill()
	}
	if err != nil {
		p.Release()
		return nil, err
	}
	p.held, p.sample = clock()-begin, m
	s.Spliced.Add(1)
	return p, nil
}

// plan takes pipes for a read. Where pipes cannot be made large enough, for want
// of CAP_SYS_RESOURCE, it takes several; fewer than it needs make a shorter read.
// A read that does not begin at a page's start takes one slot more than the pipe
// may have; then the last few bytes are copied.
func (p *spliced) plan(s *Sender, fd int, off int64, n int) error {
	p.s, p.fd, p.off, p.n, p.pipes = s, fd, off, n, p.room[:0]
	end := off + int64(n)
	for off < end && len(p.pipes) < pipesMax {
		left := int(end - off)
		if len(p.pipes) > 0 && left <= tailMax {
			if m, err := ioctx.Read(fd, p.page[:left], off); err == nil {
				p.tail = p.page[:m]
			}
			break
		}
		pipe, err := s.io.Pipes.Get()
		if err != nil && len(p.pipes) == 0 {
			return err
		}
		if err != nil {
			break
		}
		want := min(left, pipe.Size()-int(off%pageSize))
		p.wants[len(p.pipes)] = want
		p.pipes = append(p.pipes, pipe)
		off += int64(want)
	}
	return nil
}

// fill fills the pipes, and makes do with what there is. An error means that there
// is nothing.
func (p *spliced) fill() error {
	off := p.off
	for i, pipe := range p.pipes {
		got, err := pipe.Fill(p.fd, off, p.wants[i])
		if err != nil && i == 0 {
			return err
		}
		p.wants[i] -= got
		off += int64(got)
		if p.wants[i] > 0 {
			break
		}
	}
	p.trim()
	return nil
}

// unfilled says whether something is still to come into the pipes.
func (p *spliced) unfilled() bool {
	for _, n := range p.wants[:len(p.pipes)] {
		if n > 0 {
			return true
		}
	}
	return false
}

// trim gives up what has not come. What would follow it is not wanted either.
func (p *spliced) trim() {
	if !p.unfilled() {
		return
	}
	full := 0
	for p.wants[full] == 0 {
		full++
	}
	if p.pipes[full].Len() > 0 {
		full++
	}
	for i := full; i < len(p.pipes); i++ {
		p.pipes[i].Release()
		p.pipes[i] = nil
	}
	p.pipes, p.tail = p.pipes[:full], nil
	clear(p.wants[:])
}

// Len implements rpc.Payload.
func (p *spliced) Len() int {
	n := len(p.tail)
	for i, pipe := range p.pipes {
		n += pipe.Len() + p.wants[i]
	}
	return n
}

// SendTo implements rpc.Payload.
func (p *spliced) SendTo(sock int, more bool) (int, error) {
	begin := clock()
	n, err := p.sendTo(sock, more)
	p.s.Held.observe(p.held + clock() - begin)
	p.held = 0
	if p.sample.class != nil {
		p.sample.end(p.s, p.Len() == 0)
	}
	return n, err
}

func (p *spliced) sendTo(sock int, more bool) (sent int, err error) {
	if p.err != nil {
		return 0, p.err
	}
	for len(p.pipes) > 0 {
		n, err := p.pipes[0].Drain(sock, more || len(p.pipes) > 1 || len(p.tail) > 0)
		sent += n
		if err != nil {
			return sent, err
		}
		p.next()
	}
	for len(p.tail) > 0 {
		n, err := rpc.Send(sock, p.tail, more)
		p.tail = p.tail[n:]
		sent += n
		if err != nil && err != unix.EINTR {
			return sent, err
		}
	}
	return sent, nil
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
	clear(p.wants[:])
	p.s, p.tail, p.err, p.sample = nil, nil, nil, sample{}
}
