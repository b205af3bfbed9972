// Package sendpath is how READ data gets from a file to a socket.
//
// Small reads are copied into the reply batch. Large ones are spliced, file to
// pipe to socket, so that the pages of the page cache leave without a copy; or
// copied through a buffer of their own where that is asked for or splice cannot
// be had. The bytes on the wire are the same.
package sendpath

import (
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"sluice/ioctx"
	"sluice/rpc"
)

// Mode is the operator's choice of send path.
type Mode int

const (
	// Auto copies small reads and splices large ones, where the kernel splices.
	Auto Mode = iota
	// Splice is like Auto, with the size fixed at SmallRead.
	Splice
	// Copy never splices.
	Copy
)

var modes = []string{"auto", "splice", "copy"}

func (m Mode) String() string { return modes[m] }

// ParseMode reads a mode's name.
func ParseMode(s string) (Mode, error) {
	for i, name := range modes {
		if s == name {
			return Mode(i), nil
		}
	}
	return 0, fmt.Errorf("send path %q: must be auto, splice or copy", s)
}

const (
	// SmallRead is up to how many bytes a read is copied into the reply batch,
	// unless Calibrate has found better. On the machines measured copying and
	// splicing cost the same somewhere between 32 and 128 KiB.
	SmallRead = 32 << 10
	// InlineRead is the most that fits into the batch: what a read is cut to when
	// neither pipe nor buffer is to be had.
	InlineRead = 64 << 10
	// copyBudget bounds the memory of copied reads that are under way, in bytes.
	copyBudget = 64 << 20
)

// Sender makes payloads.
type Sender struct {
	mode   Mode
	io     *ioctx.Context
	small  atomic.Int32 // SmallLimit, found by Calibrate
	copied atomic.Int64 // bytes of buffers in use
	// Inline, Spliced, Copied and Fallback count reads by the path they took;
	// Fallback those that would have been spliced and were copied.
	Inline, Spliced, Copied, Fallback atomic.Uint64
}

// New returns a Sender that takes its pipes from io.
func New(mode Mode, io *ioctx.Context) *Sender {
	s := &Sender{mode: mode, io: io}
	s.small.Store(SmallRead)
	return s
}

// Mode returns the mode.
func (s *Sender) Mode() Mode { return s.mode }

// SmallLimit is up to how many bytes the caller should read into the batch.
func (s *Sender) SmallLimit() int {
	if s.mode == Copy {
		return InlineRead
	}
	return int(s.small.Load())
}

// Read returns a payload with up to n bytes of the file at off: fewer only if
// the file ends. It waits for the disk if the range is not in the page cache. A
// nil payload without error means that there is no room for one; the caller
// reads InlineRead bytes instead.
func (s *Sender) Read(fd int, off int64, n int) (rpc.Payload, error) {
	if s.mode != Copy {
		p, err := s.splice(fd, off, n)
		if p != nil || err == nil {
			return p, err
		}
		s.Fallback.Add(1)
	}
	return s.copy(fd, off, n)
}

// spliced is a pipe, and the bytes that did not fit into it.
type spliced struct {
	pipe *ioctx.Pipe
	tail []byte
	room [4096]byte
}

var splicedPool = sync.Pool{New: func() any { return new(spliced) }}

// splice fills a pipe. It returns an error if the read has to be copied.
func (s *Sender) splice(fd int, off int64, n int) (rpc.Payload, error) {
	pipe, err := s.io.Pipes.Get()
	if err != nil {
		return nil, err
	}
	got, err := pipe.Fill(fd, off, n)
	if err != nil {
		pipe.Release()
		return nil, err
	}
	p := splicedPool.Get().(*spliced)
	p.pipe, p.tail = pipe, nil
	// A read that does not begin at a page's start takes one slot more than the
	// pipe may have; the last few bytes are copied.
	if rest := n - got; got > 0 && rest > 0 && rest <= len(p.room) {
		m, err := ioctx.Read(fd, p.room[:rest], off+int64(got))
		if err == nil {
			p.tail = p.room[:m]
		}
	}
	s.Spliced.Add(1)
	return p, nil
}

func (p *spliced) Len() int { return p.pipe.Len() + len(p.tail) }

func (p *spliced) SendTo(sock int, more bool) (int, error) {
	n, err := p.pipe.Drain(sock, more || len(p.tail) > 0)
	if err != nil || len(p.tail) == 0 {
		return n, err
	}
	m, err := rpc.Send(sock, p.tail, more)
	p.tail = p.tail[m:]
	return n + m, err
}

func (p *spliced) Release() {
	p.pipe.Release()
	p.pipe, p.tail = nil, nil
	splicedPool.Put(p)
}

// copied is a buffer.
type copied struct {
	s    *Sender
	buf  []byte // all of it
	left []byte // still to send
}

var copiedPool = sync.Pool{New: func() any { return new(copied) }}

func (s *Sender) copy(fd int, off int64, n int) (rpc.Payload, error) {
	if s.copied.Add(int64(n)) > copyBudget {
		s.copied.Add(-int64(n))
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
	return p, nil
}

func (p *copied) Len() int { return len(p.left) }

func (p *copied) SendTo(sock int, more bool) (n int, err error) {
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

func (p *copied) Release() {
	p.s.copied.Add(-int64(len(p.buf)))
	p.left = nil
	copiedPool.Put(p)
}
