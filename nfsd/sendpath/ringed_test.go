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
	"time"

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

// start makes a payload that is on its way.
func start(t testing.TB, s *Sender, fd, sock int, off int64, n int) (rpc.Payload, outcome) {
	t.Helper()
	p, err := s.Read(0, fd, off, n)
	must(t, err)
	done := make(outcome, 1)
	if !p.(rpc.BackgroundPayload).Start(sock, header, false, done) {
		t.Fatal("not started")
	}
	return p, done
}

func (o outcome) wait(t testing.TB) error {
	t.Helper()
	select {
	case err := <-o:
		return err
	case <-time.After(20 * time.Second):
		t.Fatal("a payload does not end")
		return nil
	}
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
		p, err := s.Read(0, fd, int64(off), n)
		if err != nil {
			t.Error(err)
			return
		}
		got := sendAll(t, p, sock, peer)
		if !bytes.Equal(got, pattern(off, n)) {
			t.Errorf("%d at %d: other bytes", n, off)
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
		p, o := start(t, s, fd, sock, int64(i), 1<<20)
		peers, payloads, done = append(peers, peer), append(payloads, p), append(done, o)
	}
	sock, peer := pair(t)
	p, o := start(t, s, fd, sock, 5, 1<<20)
	if got := receive(t, peer, len(header)+1<<20); !bytes.Equal(got[len(header):], pattern(5, 1<<20)) {
		t.Error("other bytes beside stalled connections")
	}
	must(t, o.wait(t))
	p.Release()
	unix.Close(peer)
	for i := range stalled {
		if got := receive(t, peers[i], len(header)+1<<20); !bytes.Equal(got[len(header):], pattern(i, 1<<20)) {
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
			p, done := start(t, s, fd, sock, 0, 1<<20)
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

// A file that is truncated once its pages are in the pipe: as many bytes follow
// the header as it says. One truncated before gives fewer, and says so.
func TestRingTruncatedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(path, pattern(0, 1<<20), 0o644))
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	s := newSender(t, Uring, 4)
	sock, peer := pair(t)
	defer unix.Close(peer)
	p, err := s.Read(0, int(f.Fd()), 0, 1<<20)
	must(t, err)
	must(t, os.Truncate(path, 300_001))
	if p.Len() != 1<<20 {
		t.Fatalf("%d bytes", p.Len())
	}
	sendAll(t, p, sock, peer)
	p.Release()

	p, err = s.Read(0, int(f.Fd()), 0, 1<<20)
	must(t, err)
	if p.Len() != 300_001 {
		t.Fatalf("%d bytes of a file cut to 300001", p.Len())
	}
	if got := sendAll(t, p, sock, peer); !bytes.Equal(got, pattern(0, 300_001)) {
		t.Error("other bytes")
	}
	p.Release()
	checkIdle(t, s)
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
			exec := func(q *uring.SQE) (int32, bool) { return row.res, q.Opcode == row.op }
			s := startSender(t, Config{Mode: Uring, newQueue: fakeRings(uringtest.Config{Exec: exec})}, 4)
			sock, peer := pair(t)
			defer unix.Close(peer)
			p, done := start(t, s, fd, sock, 7, 100_000)
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
	p, done := start(t, s, fd, sock, 0, 1<<20)
	waiting, err := s.Read(0, fd, 0, 1<<20)
	must(t, err)
	s.rings[0].close()
	if err := done.wait(t); !errors.Is(err, uring.ErrLoopClosed) {
		t.Errorf("in mid-chain: %v", err)
	}
	p.Release()
	for range 2 {
		if waiting.(rpc.BackgroundPayload).Start(sock, header, false, done) {
			t.Error("a ring that has ended takes a payload")
		}
	}
	sock, peer = socketPair(t)
	if n, err := waiting.SendTo(sock, false); n == 0 || err != unix.EAGAIN {
		t.Errorf("SendTo instead: %d, %v", n, err)
	}
	waiting.Release()
	p, err = s.Read(0, fd, 9, 100_000)
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
			p, err := s.Read(0, fd, 0, 100_000)
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
		p, err := s.Read(0, fd, 11, 4<<20)
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
