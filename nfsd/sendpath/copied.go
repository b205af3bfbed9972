package sendpath

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"sluice/ioctx"
	"sluice/rpc"
)

// copied is a buffer.
type copied struct {
	s      *Sender
	buf    []byte // all of it
	left   []byte // still to send
	held   time.Duration
	sample sample
}

var copiedPool = sync.Pool{New: func() any { return new(copied) }}

func (s *Sender) copy(fd int, off int64, n int, m sample) (rpc.Payload, error) {
	begin := clock()
	if s.copied.Add(int64(n)) > copyBudget {
		s.copied.Add(-int64(n))
		s.NoRoom.Add(1)
		return nil, nil
	}
	p := copiedPool.Get().(*copied)
	p.s = s
	if cap(p.buf) < n {
		p.buf = make([]byte, n)
	}
	p.buf = p.buf[:n]
	got, err := ioctx.Read(fd, p.buf, off)
	p.left = p.buf[:got]
	if err != nil {
		p.Release()
		return nil, err
	}
	s.Copied.Add(1)
	p.held, p.sample = clock()-begin, m
	return p, nil
}

// Len implements rpc.Payload.
func (p *copied) Len() int { return len(p.left) }

// SendTo implements rpc.Payload.
func (p *copied) SendTo(sock int, more bool) (int, error) {
	begin := clock()
	n, err := p.sendTo(sock, more)
	p.s.Held.observe(p.held + clock() - begin)
	p.held = 0
	if p.sample.class != nil {
		p.sample.end(p.s, len(p.left) == 0)
	}
	return n, err
}

func (p *copied) sendTo(sock int, more bool) (n int, err error) {
	for len(p.left) > 0 {
		m, err := rpc.Send(sock, p.left, more)
		p.left = p.left[m:]
		n += m
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// Release implements rpc.Payload.
func (p *copied) Release() {
	p.s.copied.Add(-int64(len(p.buf)))
	p.s, p.left, p.sample = nil, nil, sample{}
	copiedPool.Put(p)
}
