package ioctx

import (
	"sync"

	"golang.org/x/sys/unix"
)

// Fetch brings n bytes of the file at off into the page cache and waits for
// them. The bytes pass through a pipe into /dev/null, which copies nothing.
func (c *Context) Fetch(fd int, off int64, n int) error {
	c.Fetched.Add(1)
	pipe, err := c.Pipes.Get()
	if err != nil {
		return err
	}
	defer pipe.Release()
	for n > 0 {
		m, err := pipe.Fill(fd, off, min(n, pipe.size))
		if err != nil {
			return err
		}
		if m == 0 {
			return nil // the file has become shorter
		}
		if err := pipe.discard(); err != nil {
			return err
		}
		off += int64(m)
		n -= m
	}
	return nil
}

// discard empties the pipe into /dev/null.
func (p *Pipe) discard() error {
	null, err := devNull()
	if err != nil {
		return err
	}
	for p.held > 0 {
		n, err := splice(p.r, nil, null, p.held, unix.SPLICE_F_NONBLOCK)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		p.held -= n
	}
	return nil
}

// devNull opens /dev/null once for the process.
var devNull = sync.OnceValues(func() (int, error) {
	return unix.Open("/dev/null", unix.O_WRONLY|unix.O_CLOEXEC, 0)
})
