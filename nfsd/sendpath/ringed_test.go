package sendpath

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/rpc"
	"sluice/uring"
	"sluice/uring/uringtest"
)

// fakeRings makes senders use rings that misbehave.
func fakeRings(c uringtest.Config) func() (uring.Queue, error) {
	return func() (uring.Queue, error) { return uringtest.New(c), nil }
}

// pair returns the ends of a TCP connection over loopback with a small window;
// the sending one does not block.
func pair(t testing.TB) (sock, peer int) {
	t.Helper()
	b := &bench{out: -1, in: -1}
	must(t, b.connect())
	t.Cleanup(func() { unix.Close(b.out) })
	must(t, unix.SetsockoptInt(b.out, unix.SOL_SOCKET, unix.SO_SNDBUF, 64<<10))
	must(t, unix.SetsockoptInt(b.in, unix.SOL_SOCKET, unix.SO_RCVBUF, 64<<10))
	must(t, unix.SetsockoptTimeval(b.in, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 20}))
	return b.out, b.in
}

// startRead has a read leave in the background.
func startRead(t testing.TB, s *Sender, fd, sock int, off int64, n int) (rpc.Payload, outcome) {
	t.Helper()
	p, err := s.Read(0, fd, off, n, false)
	must(t, err)
	return p, start(t, p.(rpc.BackgroundPayload), sock)
}

// checkIdle fails if a pipe is out.
func checkIdle(t testing.TB, s *Sender) {
	t.Helper()
	if n := s.io.Pipes.InUse(); n != 0 {
		t.Errorf("%d pipes in use", n)
	}
}

// Many connections at once, each with one payload after the other: every peer gets
// the bytes of his reads, in order, whatever the ring does: transfers that fall
// short and so break the chain, a full socket with data left in the pipe,
// interruptions, completions in any order.
func TestRingUnderFaults(t *testing.T) {
	fd := openFile(t)
	for seed := range uint64(12) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			faults := uringtest.AllFaults(0.15)
			faults.EIO, faults.ENOBUFS = 0, 0 // these are for good
			s := startSender(t, Config{Mode: Uring, newQueue: fakeRings(uringtest.Config{Seed: seed, Faults: faults})}, 32)
			var conns sync.WaitGroup
			for i := range uint64(5) {
				sock, peer := pair(t)
				conns.Go(func() { readMany(t, s, fd, sock, peer, rand.New(rand.NewPCG(seed, i))) })
			}
			conns.Wait()
			checkIdle(t, s)
			if n := s.io.Pipes.Discarded.Load(); n != 0 {
				t.Errorf("%d pipes were not empty", n)
			}
		})
	}
}

func readMany(t *testing.T, s *Sender, fd, sock, peer int, rnd *rand.Rand) {
	defer unix.Close(peer)
	for range 4 {
		off, n := rnd.IntN(fileSize-4<<20), 1+rnd.IntN(300_000)
		if rnd.IntN(4) == 0 {
			n += 1 << 20 // more than one pipe
		}
		p, err := s.Read(0, fd, int64(off), n, false)
		if err != nil {
			t.Error(err)
			return
		}
		// Fewer only where a pipe claimed to be full.
		got := sendAll(t, p, sock, peer)
		if len(got) == 0 || len(got) > n || !bytes.Equal(got, pattern(off, len(got))) {
			t.Errorf("%d at %d: %d bytes, or others", n, off, len(got))
		}
		p.Release()
	}
}

// The kernel's own ring: a peer that takes nothing for a while fills the socket,
// and what is left in the pipe waits there without a worker, which others get.
func TestRingFullSocket(t *testing.T) {
	fd := openFile(t)
	s := newSender(t, Uring, 64)
	const stalled = 20 // many more than workers
	var peers []int
	var payloads []rpc.Payload
	var done []outcome
	for i := range stalled {
		sock, peer := pair(t)
		p, o := startRead(t, s, fd, sock, int64(i), 1<<20)
		peers, payloads, done = append(peers, peer), append(payloads, p), append(done, o)
	}
	sock, peer := pair(t)
	p, o := startRead(t, s, fd, sock, 5, 1<<20)
	if got := receiveReply(t, peer); !bytes.Equal(got, pattern(5, 1<<20)) {
		t.Error("other bytes beside stalled connections")
	}
	must(t, o.wait(t))
	p.Release()
	unix.Close(peer)
	for i := range stalled {
		if got := receiveReply(t, peers[i]); !bytes.Equal(got, pattern(i, 1<<20)) {
			t.Errorf("connection %d: other bytes", i)
		}
		must(t, done[i].wait(t))
		payloads[i].Release()
		unix.Close(peers[i])
	}
	checkIdle(t, s)
	if n := s.io.Pipes.Discarded.Load(); n != 0 {
		t.Errorf("%d pipes were not empty", n)
	}
}

// A peer that resets, or whose connection is shut, in mid-chain ends the payload
// with an error, and its pipe does not go back to the pool with bytes in it.
func TestRingBrokenConnection(t *testing.T) {
	fd := openFile(t)
	for _, queue := range []func() (uring.Queue, error){nil, fakeRings(uringtest.Config{Seed: 3})} {
		s := startSender(t, Config{Mode: Uring, newQueue: queue}, 8)
		for i, end := range []func(sock, peer int) error{
			func(_, peer int) error { // closing with unread data, or without linger, resets
				if err := unix.SetsockoptLinger(peer, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}); err != nil {
					return err
				}
				return unix.Close(peer)
			},
			func(sock, peer int) error { defer unix.Close(peer); return unix.Shutdown(sock, unix.SHUT_RDWR) },
		} {
			sock, peer := pair(t)
			p, done := startRead(t, s, fd, sock, 0, 1<<20)
			receive(t, peer, 1000)
			must(t, end(sock, peer))
			if err := done.wait(t); err != unix.EPIPE && err != unix.ECONNRESET {
				t.Errorf("end %d: %v, want EPIPE or ECONNRESET", i, err)
			}
			p.Release()
			if n := s.io.Pipes.Discarded.Load(); n != uint64(i+1) {
				t.Errorf("%d pipes discarded, want %d", n, i+1)
			}
		}
		checkIdle(t, s)
	}
}

// A file that is truncated after the call was answered and before it is read: the
// header says how much there is, and that follows. One truncated when its pages are
// in the pipe leaves as it was.
func TestRingTruncatedFile(t *testing.T) {
	for _, row := range []struct{ off, n, left int }{
		{0, 1 << 20, 300_001}, {0, 1 << 20, 0}, {5, 1 << 20, 300_002}, {0, 3 << 20, 1<<20 + 3}, {0, 3 << 20, 1 << 20}, {4096, 70_001, 4096}, {1, 4 << 20, 2<<20 + 1},
	} {
		path := filepath.Join(t.TempDir(), "file")
		must(t, os.WriteFile(path, pattern(0, fileSize), 0o644))
		f, err := os.Open(path)
		must(t, err)
		defer f.Close()
		s := newSender(t, Uring, 8)
		sock, peer := pair(t)
		defer unix.Close(peer)
		p, err := s.Read(0, int(f.Fd()), int64(row.off), row.n, false)
		must(t, err)
		if p.Len() != row.n {
			t.Fatalf("%+v: %d bytes", row, p.Len())
		}
		must(t, os.Truncate(path, int64(row.left)))
		if got := sendAll(t, p, sock, peer); !bytes.Equal(got, pattern(row.off, max(0, row.left-row.off))) {
			t.Errorf("%+v: %d bytes, or others", row, len(got))
		}
		p.Release()
		must(t, os.WriteFile(path, pattern(0, fileSize), 0o644))
		if p, err = s.Read(0, int(f.Fd()), int64(row.off), row.n, true); err != nil {
			t.Fatal(err)
		}
		must(t, os.Truncate(path, 0))
		if got := sendAll(t, p, sock, peer); len(got) != row.n { // the kernel may have cleared a page's end
			t.Errorf("%+v: %d bytes of full pipes", row, len(got))
		}
		p.Release()
		checkIdle(t, s)
		if n := s.io.Pipes.Discarded.Load(); n != 0 {
			t.Errorf("%+v: %d pipes were not empty", row, n)
		}
	}
}

// A file system that does not splice: the beginning is copied, and the header says
// how much. One that does not read either: the reply is an error, which is the
// amended header alone.
func TestRingRefused(t *testing.T) {
	fd := openFile(t)
	exec := func(q *uring.SQE) (int32, bool) {
		return -int32(unix.EINVAL), q.Opcode == uring.IORING_OP_SPLICE && int(q.SpliceFDIn) == fd
	}
	s := startSender(t, Config{Mode: Uring, newQueue: fakeRings(uringtest.Config{Exec: exec})}, 4)
	sock, peer := pair(t)
	defer unix.Close(peer)
	for _, n := range []int{40_000, 100_001, 1 << 20} {
		p, err := s.Read(0, fd, 3, n, false)
		must(t, err)
		if got := sendAll(t, p, sock, peer); !bytes.Equal(got, pattern(3, min(n, InlineRead))) {
			t.Errorf("%d: %d bytes, or others", n, len(got))
		}
		p.Release()
	}
	dir, err := unix.Open(t.TempDir(), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(dir)
	s2 := newSender(t, Uring, 4)
	p, err := s2.Read(0, dir, 0, 100_000, false)
	must(t, err)
	if got := sendAll(t, p, sock, peer); len(got) != 0 {
		t.Errorf("%d bytes of a directory", len(got))
	}
	p.Release()
	checkIdle(t, s)
	checkIdle(t, s2)
	if s.Refused.Load() != 3 || s2.Refused.Load() != 1 {
		t.Errorf("%d and %d refused, want 3 and 1", s.Refused.Load(), s2.Refused.Load())
	}
}

// What the ring does not recover from ends the payload, once, after all of the
// chain has completed.
func TestRingErrors(t *testing.T) {
	fd := openFile(t)
	for _, row := range []struct {
		name string
		op   uring.Opcode
		res  int32
		want error
	}{
		{"the splice fails", uring.IORING_OP_SPLICE, -int32(unix.EIO), unix.EIO},
		{"the pipe is empty", uring.IORING_OP_SPLICE, 0, unix.EIO},
		{"the header fails", uring.IORING_OP_SEND, -int32(unix.ECONNRESET), unix.ECONNRESET},
	} {
		t.Run(row.name, func(t *testing.T) {
			exec := func(q *uring.SQE) (int32, bool) {
				return row.res, q.Opcode == row.op && int(q.SpliceFDIn) != fd
			}
			s := startSender(t, Config{Mode: Uring, newQueue: fakeRings(uringtest.Config{Exec: exec})}, 4)
			sock, peer := pair(t)
			defer unix.Close(peer)
			p, done := startRead(t, s, fd, sock, 7, 100_000)
			if err := done.wait(t); err != row.want {
				t.Errorf("%v, want %v", err, row.want)
			}
			p.Release()
			checkIdle(t, s)
			if n := s.io.Pipes.Discarded.Load(); n != 1 {
				t.Errorf("%d pipes discarded, want 1", n)
			}
		})
	}
}

// A ring that ends takes what is on its way along and refuses the rest; the sender
// says so once and goes on by itself.
func TestRingEnds(t *testing.T) {
	fd := openFile(t)
	var log bytes.Buffer
	s := startSender(t, Config{Mode: Uring, Log: slog.New(slog.NewTextHandler(&log, nil))}, 8)
	sock, peer := pair(t)
	defer unix.Close(peer)
	p, done := startRead(t, s, fd, sock, 0, 1<<20)
	waiting, err := s.Read(0, fd, 0, 1<<20, false)
	must(t, err)
	s.rings[0].close()
	if err := done.wait(t); !errors.Is(err, uring.ErrLoopClosed) {
		t.Errorf("in mid-chain: %v", err)
	}
	p.Release()
	for range 2 {
		if waiting.(rpc.BackgroundPayload).Start(sock, header(1<<20), false, done) {
			t.Error("a ring that has ended takes a payload")
		}
	}
	sock, peer = socketPair(t)
	if n, err := waiting.SendTo(sock, false); n == 0 || err != unix.EAGAIN {
		t.Errorf("SendTo instead: %d, %v", n, err)
	}
	waiting.Release()
	p, err = s.Read(0, fd, 9, 100_000, false)
	must(t, err)
	if _, ringed := p.(rpc.BackgroundPayload); ringed {
		t.Error("another payload is for the ring")
	}
	if got := sendAll(t, p, sock, emptied(t, peer)); len(got) != 100_000 {
		t.Errorf("%d bytes", len(got))
	}
	p.Release()
	if n := strings.Count(log.String(), "level=WARN"); n != 1 || s.Stats().Note == "" || s.NoRing.Load() != 2 {
		t.Errorf("said %d times, status %q, %d refused:\n%s", n, s.Stats().Note, s.NoRing.Load(), log.String())
	}
	checkIdle(t, s)
}

// emptied reads all that is there.
func emptied(t testing.TB, peer int) int {
	t.Helper()
	buf := make([]byte, 1<<20)
	for {
		if n, err := unix.Read(peer, buf); n <= 0 || err != nil {
			return peer
		}
	}
}

// Without io_uring the ring path splices, and says so once.
func TestNoRing(t *testing.T) {
	fd := openFile(t)
	for name, cfg := range map[string]Config{
		"switched off": {NoRing: true},
		"no io_uring":  {newQueue: func() (uring.Queue, error) { return nil, unix.EPERM }},
		"no place":     {OnThread: func(int) error { return unix.EINVAL }},
	} {
		var log bytes.Buffer
		cfg.Mode, cfg.Log = Uring, slog.New(slog.NewTextHandler(&log, nil))
		s := startSender(t, cfg, 2)
		for range 3 {
			p, err := s.Read(0, fd, 0, 100_000, false)
			must(t, err)
			sock, peer := pair(t)
			if got := sendAll(t, p, sock, peer); !bytes.Equal(got, pattern(0, 100_000)) {
				t.Errorf("%s: other bytes", name)
			}
			p.Release()
			unix.Close(peer)
		}
		st := s.Stats()
		if n := strings.Count(log.String(), "level=WARN"); n != 1 || st.Note == "" || st.Spliced != 3 || st.Rings != 0 {
			t.Errorf("%s: said %d times; %+v", name, n, st)
		}
	}
}

// The workers are bounded, and one is enough; threads have their names.
func TestRingWorkers(t *testing.T) {
	fd := openFile(t)
	placed := make(chan int, 4)
	s := startSender(t, Config{Mode: Uring, Lanes: 2, RingCPUs: func(int) []int { return []int{0} },
		OnThread: func(lane int) error { placed <- lane; return nil }}, 16)
	if len(placed) != 2 || s.Stats().Workers != 2 || s.Stats().Rings != 2 {
		t.Fatalf("%d threads placed, %+v", len(placed), s.Stats())
	}
	var conns sync.WaitGroup
	for i := range 8 {
		sock, peer := pair(t)
		conns.Go(func() { readMany(t, s, fd, sock, peer, rand.New(rand.NewPCG(1, uint64(i)))) })
	}
	conns.Wait()
	names := map[string]int{}
	tasks, err := filepath.Glob("/proc/self/task/*/comm")
	must(t, err)
	for _, path := range tasks {
		if b, err := os.ReadFile(path); err == nil {
			names[strings.TrimSpace(string(b))]++
		}
	}
	if names["sl-s00"] == 0 || names["sl-s01"] == 0 { // a new worker has its parent's name for a moment
		t.Errorf("threads: %v", names)
	}
	checkIdle(t, s)
}

// Pipes that hold little make a short read of it, not a wrong one.
func TestSmallPipes(t *testing.T) {
	fd := openFile(t)
	for _, mode := range []Mode{Splice, Uring} {
		s := startSender(t, Config{Mode: mode}, 32)
		s.io.Pipes.Size = 64 << 10
		p, err := s.Read(0, fd, 11, 4<<20, false)
		must(t, err)
		if p.Len() < pipesMax*(60<<10) || p.Len() > pipesMax*(64<<10) {
			t.Errorf("%v: %d bytes in %d pipes of 64 KiB", mode, p.Len(), pipesMax)
		}
		n := p.Len()
		sock, peer := pair(t)
		if got := sendAll(t, p, sock, peer); !bytes.Equal(got, pattern(11, n)) {
			t.Errorf("%v: other bytes", mode)
		}
		p.Release()
		unix.Close(peer)
		checkIdle(t, s)
	}
}
