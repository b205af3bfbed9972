package sendpath

import (
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"sluice/ioctx"
	"sluice/rpc"
)

// Calibration is what Calibrate found: CPU time to send one read of a size, by
// either path.
type Calibration struct {
	Size         int
	Copy, Splice time.Duration
}

func (c Calibration) String() string {
	return fmt.Sprintf("%dK copy %v splice %v", c.Size>>10, c.Copy, c.Splice)
}

const (
	calibrateOps    = 128 // of one size by one path in one round
	calibrateRounds = 3
)

// Calibrate finds out up to which size copying a read costs less CPU than
// splicing it, and takes that for SmallLimit. It sends data in the page cache to
// itself over loopback, a few tens of milliseconds in all: which is cheaper
// depends on how fast this machine copies, not on any disk. On an error the
// limit stays SmallRead.
func (s *Sender) Calibrate() ([]Calibration, error) {
	if s.mode != Auto {
		return nil, nil
	}
	type result struct {
		found []Calibration
		err   error
	}
	done := make(chan result)
	go func() {
		// Thread CPU time is what is measured, so the thread is its own.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		found, err := s.calibrate()
		done <- result{found, err}
	}()
	r := <-done
	limit := 0
	for _, c := range r.found {
		if c.Copy <= c.Splice {
			limit = c.Size
		}
	}
	if r.err == nil {
		s.small.Store(int32(max(limit, calibrateSizes[0])))
	}
	return r.found, r.err
}

// calibrateSizes are the sizes tried; the first is always copied.
var calibrateSizes = []int{16 << 10, 32 << 10, 64 << 10}

func (s *Sender) calibrate() ([]Calibration, error) {
	b, err := newBench(s.io)
	if err != nil {
		return nil, err
	}
	defer b.close()
	var found []Calibration
	for _, size := range calibrateSizes {
		c := Calibration{Size: size}
		for range calibrateRounds {
			copied, err := b.measure(size, b.copy)
			if err != nil {
				return nil, err
			}
			spliced, err := b.measure(size, b.splice)
			if err != nil {
				return nil, err
			}
			if c.Copy == 0 || copied < c.Copy {
				c.Copy = copied
			}
			if c.Splice == 0 || spliced < c.Splice {
				c.Splice = spliced
			}
		}
		found = append(found, c)
	}
	return found, nil
}

// bench is a file in memory and a connection to itself.
type bench struct {
	io         *ioctx.Context
	file       int
	out, in    int
	batch      []byte
	pipe       *ioctx.Pipe
	header     [128]byte
	drained    chan struct{}
	batchFlush int
}

func newBench(io *ioctx.Context) (*bench, error) {
	b := &bench{io: io, file: -1, out: -1, in: -1, drained: make(chan struct{}), batchFlush: 512 << 10}
	b.batch = make([]byte, 0, b.batchFlush+InlineRead+len(b.header))
	var err error
	if b.pipe, err = io.Pipes.Get(); err != nil {
		return nil, err
	}
	if b.file, err = unix.MemfdCreate("sluice-calibrate", unix.MFD_CLOEXEC); err == nil {
		_, err = unix.Pwrite(b.file, make([]byte, 1<<20), 0)
	}
	if err == nil {
		err = b.connect()
	}
	if err != nil {
		close(b.drained)
		b.close()
		return nil, err
	}
	go b.drain()
	return b, nil
}

// connect makes a TCP connection over loopback with itself.
func (b *bench) connect() error {
	l, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(l)
	addr := &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}
	if err := unix.Bind(l, addr); err != nil {
		return err
	}
	if err := unix.Listen(l, 1); err != nil {
		return err
	}
	self, err := unix.Getsockname(l)
	if err != nil {
		return err
	}
	if b.out, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return err
	}
	if err := unix.Connect(b.out, self); err != nil {
		return err
	}
	if b.in, _, err = unix.Accept4(l, unix.SOCK_CLOEXEC); err != nil {
		return err
	}
	rpc.TuneLoopback(b.out)
	// Only the socket's own flag keeps splice(2) from waiting (splice_to_socket in
	// fs/splice.c), and it is called raw: waiting there for drain, which the
	// garbage collector may have stopped, would never end.
	return unix.SetNonblock(b.out, true)
}

// drain receives and drops everything, in the kernel (tcp(7), MSG_TRUNC).
func (b *bench) drain() {
	defer close(b.drained)
	buf := make([]byte, 1<<20)
	for {
		n, _, err := unix.Recvfrom(b.in, buf, unix.MSG_TRUNC)
		if err != unix.EINTR && (n <= 0 || err != nil) {
			return
		}
	}
}

func (b *bench) close() {
	if b.out >= 0 {
		unix.Close(b.out)
	}
	<-b.drained
	if b.in >= 0 {
		unix.Close(b.in)
	}
	if b.file >= 0 {
		unix.Close(b.file)
	}
	b.pipe.Release()
}

// measure returns the thread's CPU time for one read of the size.
func (b *bench) measure(size int, send func(off int64, size int) error) (time.Duration, error) {
	var before, after unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &before); err != nil {
		return 0, err
	}
	for i := range calibrateOps {
		if err := send(int64(i*size)%(1<<20), size); err != nil {
			return 0, err
		}
	}
	if err := b.flush(); err != nil {
		return 0, err
	}
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &after); err != nil {
		return 0, err
	}
	return time.Duration(after.Nano()-before.Nano()) / calibrateOps, nil
}

// copy is what the server does with a small read.
func (b *bench) copy(off int64, size int) error {
	b.batch = append(b.batch, b.header[:]...)
	n, err := ioctx.Read(b.file, b.batch[len(b.batch):len(b.batch)+size], off)
	if err != nil {
		return err
	}
	b.batch = b.batch[:len(b.batch)+n]
	if len(b.batch) >= b.batchFlush {
		return b.flush()
	}
	return nil
}

func (b *bench) flush() error {
	p := b.batch
	b.batch = b.batch[:0]
	for len(p) > 0 {
		n, err := rpc.Send(b.out, p, false)
		p = p[n:]
		if err := b.writable(err); err != nil {
			return err
		}
	}
	return nil
}

// splice is what the server does with a large one.
func (b *bench) splice(off int64, size int) error {
	ioctx.Resident(b.file, off, size) // the server asks too
	if _, err := b.pipe.Fill(b.file, off, size); err != nil {
		return err
	}
	if _, err := rpc.Send(b.out, b.header[:], true); b.writable(err) != nil {
		return err
	}
	for b.pipe.Len() > 0 {
		_, err := b.pipe.Drain(b.out, false)
		if err := b.writable(err); err != nil {
			return err
		}
	}
	return nil
}

// writable waits after EAGAIN; other errors it returns.
func (b *bench) writable(err error) error {
	if err != unix.EAGAIN {
		return err
	}
	_, err = unix.Poll([]unix.PollFd{{Fd: int32(b.out), Events: unix.POLLOUT}}, 1000)
	if err == unix.EINTR {
		return nil
	}
	return err
}
