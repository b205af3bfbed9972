package ioctx

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// ErrNoPipe says that as many pipes are in use as the pool may make, or that
// the kernel gives none; the reader copies instead.
var ErrNoPipe = errors.New("ioctx: no pipe to be had")

// Pipe carries file data to a socket without a copy: its pages are those of the
// page cache. One reader owns it from Get to Release.
type Pipe struct {
	r, w int
	size int // bytes it holds if every slot is full
	held int // bytes in it
	pool *Pipes
}

// Pipes is a bounded pool of pipes.
type Pipes struct {
	// Size is what a pipe is asked to hold, in bytes: the longest read. Set it
	// before the first Get; NewPipes makes it 1 MiB.
	Size int

	limit int

	mu    sync.Mutex
	idle  []*Pipe
	inUse int

	// Made and Discarded count pipes made, and closed because they were not
	// empty when released.
	Made, Discarded atomic.Uint64
}

// NewPipes returns a pool that lets at most limit pipes be in use at once.
func NewPipes(limit int) *Pipes { return &Pipes{Size: pipeSize, limit: limit} }

// Limit returns how many pipes may be in use at once.
func (p *Pipes) Limit() int { return p.limit }

// Get returns an empty pipe or ErrNoPipe.
func (p *Pipes) Get() (*Pipe, error) {
	p.mu.Lock()
	if p.inUse >= p.limit {
		p.mu.Unlock()
		return nil, ErrNoPipe
	}
	p.inUse++
	if n := len(p.idle); n > 0 {
		pipe := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return pipe, nil
	}
	p.mu.Unlock()
	pipe, err := p.make()
	if err != nil {
		p.mu.Lock()
		p.inUse--
		p.mu.Unlock()
		return nil, ErrNoPipe
	}
	return pipe, nil
}

// make opens a pipe and enlarges it. Without CAP_SYS_RESOURCE a pipe holds at most
// fs.pipe-max-size, 1 MiB by default, and without that and CAP_SYS_ADMIN a user
// has fs.pipe-user-pages-soft pages in all; beyond that new pipes hold one or two
// pages (pipe(7)), so what came is looked at.
func (p *Pipes) make() (*Pipe, error) {
	var fd [2]int
	if err := unix.Pipe2(fd[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil, os.NewSyscallError("pipe2", err)
	}
	size, err := unix.FcntlInt(uintptr(fd[1]), unix.F_SETPIPE_SZ, p.Size)
	if err != nil && p.Size > pipeSize {
		size, err = unix.FcntlInt(uintptr(fd[1]), unix.F_SETPIPE_SZ, pipeSize)
	}
	if err != nil {
		size, err = unix.FcntlInt(uintptr(fd[1]), unix.F_GETPIPE_SZ, 0)
	}
	if err != nil || size < pipeSizeMin {
		_ = unix.Close(fd[0])
		_ = unix.Close(fd[1])
		return nil, ErrNoPipe
	}
	p.Made.Add(1)
	return &Pipe{r: fd[0], w: fd[1], size: size, pool: p}, nil
}

// InUse returns how many pipes are out.
func (p *Pipes) InUse() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.inUse
}

// Close closes the idle pipes.
func (p *Pipes) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pipe := range p.idle {
		pipe.close()
	}
	p.idle = nil
}

func (p *Pipe) close() {
	_ = unix.Close(p.r)
	_ = unix.Close(p.w)
}

// Len returns how many bytes the pipe holds.
func (p *Pipe) Len() int { return p.held }

// Size returns how many bytes the pipe could hold.
func (p *Pipe) Size() int { return p.size }

// FDs returns the descriptors to read from and write to, for who moves data by
// other means than Fill and Drain, and tells Filled and Drained.
func (p *Pipe) FDs() (r, w int) { return p.r, p.w }

// Filled says that n bytes have come into the pipe.
func (p *Pipe) Filled(n int) { p.held += n }

// Drained says that n bytes have left the pipe.
func (p *Pipe) Drained(n int) { p.held -= n }

// Fill splices up to n bytes of the file at off into the pipe, waiting for the
// disk where it must. It returns fewer at the end of the file or when the pipe
// is full, and an error only if nothing came.
func (p *Pipe) Fill(fd int, off int64, n int) (int, error) {
	got := 0
	for got < n {
		// SPLICE_F_NONBLOCK is about the pipe: a full one ends the loop.
		m, err := splice(fd, &off, p.w, n-got, unix.SPLICE_F_NONBLOCK)
		if err == unix.EINTR {
			continue
		}
		if err != nil && err != unix.EAGAIN && got == 0 {
			return 0, err
		}
		if err != nil || m == 0 {
			break
		}
		got += m // off has moved with it
	}
	p.held += got
	return got, nil
}

// Drain splices what it holds to a socket, which must be non-blocking. more says
// that other bytes follow. EAGAIN means that the socket is full; n counts what
// went.
func (p *Pipe) Drain(sock int, more bool) (n int, err error) {
	flags := unix.SPLICE_F_NONBLOCK
	if more {
		flags |= unix.SPLICE_F_MORE
	}
	for p.held > 0 {
		m, err := spliceOut(p.r, sock, p.held, flags)
		if err == unix.EINTR {
			continue
		}
		if err == nil && m == 0 {
			err = unix.EIO // the pipe was emptied by nobody we know
		}
		if err != nil {
			return n, err
		}
		p.held -= m
		n += m
	}
	return n, nil
}

// Release gives the pipe back. One that still holds something is closed, for
// its next reader would send another file's bytes.
func (p *Pipe) Release() {
	pool := p.pool
	pool.mu.Lock()
	pool.inUse--
	if p.held == 0 && len(pool.idle) < idlePipes {
		pool.idle = append(pool.idle, p)
		pool.mu.Unlock()
		return
	}
	pool.mu.Unlock()
	if p.held != 0 {
		pool.Discarded.Add(1)
	}
	p.close()
}
