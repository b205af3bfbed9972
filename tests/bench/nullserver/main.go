// Command nullserver shows what the load generator costs: it answers NFS READs with
// as little work as there can be, data that no file holds, the same pages again and
// again. What limits a measurement against it is the client.
package main

import (
	"os"

	"golang.org/x/sys/unix"

	"sluice/tests/bench/yardstick"
)

// small is up to which size data is appended to the replies: sending several at
// once costs less than two system calls for each.
const small = 16 << 10

func main() { yardstick.Main(newNothing) }

// nothing sends zeros on one connection.
type nothing struct {
	full, pipe [2]int // full always holds MaxRead bytes
	zeros      [small]byte
}

func newNothing(*os.File) (yardstick.Data, error) {
	z := new(nothing)
	var err error
	if z.full, err = yardstick.Pipe(); err != nil {
		return nil, err
	}
	if z.pipe, err = yardstick.Pipe(); err != nil {
		return nil, err
	}
	_, err = unix.Write(z.full[1], make([]byte, yardstick.MaxRead))
	return z, err
}

// Send implements yardstick.Data.
func (z *nothing) Send(c *yardstick.Conn, _ int64, n int) error {
	if n <= small {
		c.Out = append(c.Out, z.zeros[:n]...)
		return nil
	}
	if err := c.Flush(unix.MSG_MORE); err != nil {
		return err
	}
	for n > 0 {
		m, err := unix.Tee(z.full[0], z.pipe[1], n, 0)
		if err != nil {
			return err
		}
		if err := c.SplicePipe(z.pipe[0], int(m)); err != nil {
			return err
		}
		n -= int(m)
	}
	return nil
}
