package sendpath

import (
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"sluice/ioctx"
	"sluice/rpc"
)

// bench is a file in memory and a connection to itself.
type bench struct {
	s       *Sender
	file    int
	out, in int
	batch   []byte
	header  [128]byte
	drainer int // thread
	drained chan struct{}
	sent    chan error
}

const (
	benchFile  = 4 << 20
	benchFlush = 512 << 10 // what leaves together of small replies
)

func newBench(s *Sender) (*bench, error) {
	b := &bench{s: s, file: -1, out: -1, in: -1, drained: make(chan struct{}), sent: make(chan error, 1)}
	b.batch = make([]byte, 0, benchFlush+InlineRead+len(b.header))
	var err error
	if b.file, err = unix.MemfdCreate("sluice-calibrate", unix.MFD_CLOEXEC); err == nil {
		_, err = unix.Pwrite(b.file, make([]byte, benchFile), 0)
	}
	if err == nil {
		err = b.connect()
	}
	if err != nil {
		close(b.drained)
		b.close()
		return nil, err
	}
	ready := make(chan int)
	go b.drain(ready)
	b.drainer = <-ready
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
func (b *bench) drain(ready chan<- int) {
	defer close(b.drained)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ready <- unix.Gettid()
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
}

// measure returns the CPU time of one read of the size, the receiver's not
// counted. A ring's workers are threads of the process like others.
func (b *bench) measure(p path, size int) (time.Duration, error) {
	ops := min(calibrateOps, calibrateBytes/size)
	before, err := b.used()
	if err != nil {
		return 0, err
	}
	for i := range ops {
		if err := b.send(p, int64(i*size%benchFile), size); err != nil {
			return 0, fmt.Errorf("%v: %w", p, err)
		}
	}
	if err := b.flush(); err != nil {
		return 0, err
	}
	after, err := b.used()
	return (after - before) / time.Duration(ops), err
}

// used returns the CPU time of the process without the receiver's.
func (b *bench) used() (time.Duration, error) {
	var all, drain unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &all); err != nil {
		return 0, err
	}
	// The clock of a thread, as clock_getcpuclockid(3) numbers them.
	const perThread, sched = 4, 2
	if err := unix.ClockGettime(int32(^b.drainer<<3|perThread|sched), &drain); err != nil {
		return 0, err
	}
	return time.Duration(all.Nano() - drain.Nano()), nil
}

func (b *bench) send(p path, off int64, size int) error {
	if p == pathCopy && size <= InlineRead {
		return b.inline(off, size)
	}
	ioctx.Resident(b.file, off, size) // the server asks too
	pl, err := b.s.make(p, 0, b.file, off, size, false, sample{})
	if err != nil || pl == nil {
		return fmt.Errorf("no payload: %v", err)
	}
	defer pl.Release()
	if bg, ok := pl.(rpc.BackgroundPayload); ok && bg.Start(b.out, b.header[:], false, b) {
		return <-b.sent
	}
	if _, err := rpc.Send(b.out, b.header[:], true); b.writable(err) != nil {
		return err
	}
	for pl.Len() > 0 {
		_, err := pl.SendTo(b.out, false)
		if err := b.writable(err); err != nil {
			return err
		}
	}
	return nil
}

// Sent implements rpc.Sent.
func (b *bench) Sent(err error) { b.sent <- err }

// inline is what the server does with a small read.
func (b *bench) inline(off int64, size int) error {
	b.batch = append(b.batch, b.header[:]...)
	n, err := ioctx.Read(b.file, b.batch[len(b.batch):len(b.batch)+size], off)
	if err != nil {
		return err
	}
	b.batch = b.batch[:len(b.batch)+n]
	if len(b.batch) >= benchFlush {
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
