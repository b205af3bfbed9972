// Command spliceloop is the limit that the server is measured against: a bare
// loop that answers NFS READs of one file by splicing it, file to pipe to socket,
// and checks nothing at all.
package main

import (
	"io"
	"os"

	"golang.org/x/sys/unix"

	"sluice/tests/bench/yardstick"
)

func main() { yardstick.Main(newLoop) }

// loop splices the file on one connection.
type loop struct {
	file int
	pipe [2]int
}

func newLoop(f *os.File) (yardstick.Data, error) {
	p, err := yardstick.Pipe()
	return &loop{file: int(f.Fd()), pipe: p}, err
}

// Send implements yardstick.Data.
func (l *loop) Send(c *yardstick.Conn, off int64, n int) error {
	if err := c.Flush(unix.MSG_MORE); err != nil {
		return err
	}
	for n > 0 {
		m, err := unix.Splice(l.file, &off, l.pipe[1], nil, n, 0)
		if err == nil && m == 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		if err := c.SplicePipe(l.pipe[0], int(m)); err != nil {
			return err
		}
		n -= int(m)
	}
	return nil
}
