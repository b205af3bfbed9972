package sendpath

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/ioctx"
	"sluice/rpc"
)

const fileSize = 6<<20 + 77

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func pattern(off, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		x := off + i
		b[i] = byte(x ^ x>>8 ^ x>>16)
	}
	return b
}

func openFile(t testing.TB) int {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(path, pattern(0, fileSize), 0o644))
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	must(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

func newSender(t testing.TB, mode Mode, pipes int) *Sender {
	t.Helper()
	return startSender(t, Config{Mode: mode}, pipes)
}

func startSender(t testing.TB, cfg Config, pipes int) *Sender {
	t.Helper()
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Amend = amend
	s := New(cfg, &ioctx.Context{Pipes: ioctx.NewPipes(pipes)})
	t.Cleanup(func() {
		s.Close()
		s.io.Pipes.Close()
	})
	return s
}

// socketPair returns the ends of a stream; the sending one does not block.
func socketPair(t testing.TB) (sock, peer int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	t.Cleanup(func() { unix.Close(fds[0]); unix.Close(fds[1]) })
	return fds[0], fds[1]
}

// header is what goes before a payload of n bytes.
func header(n int) []byte {
	return binary.BigEndian.AppendUint32([]byte("header of bytes "), uint32(n))
}

const headerLen = 20

// amend is Config.Amend for such headers. An error is a count of its own.
func amend(head []byte, _ int, _ int64, n int, err error) []byte {
	if err != nil {
		n = 0
	}
	return append(head[:len(head)-headerLen], header(n)...)
}

// sendAll sends a payload to a peer that takes a little at a time, and returns
// what he got. It goes in the background if it can.
func sendAll(t testing.TB, p rpc.Payload, sock, peer int) (got []byte) {
	t.Helper()
	if b, ok := p.(rpc.BackgroundPayload); ok {
		done := start(t, b, sock)
		got = receiveReply(t, peer)
		if err := done.wait(t); err != nil || p.Len() != 0 {
			t.Fatalf("sent: %v, %d left", err, p.Len())
		}
		return got
	}
	for p.Len() > 0 {
		before := p.Len()
		n, err := p.SendTo(sock, true)
		if err != nil && err != unix.EAGAIN || before-p.Len() != n {
			t.Fatalf("SendTo: %d, %v; %d of %d left", n, err, p.Len(), before)
		}
		got = append(got, receive(t, peer, n)...)
	}
	return got
}

// outcome is an rpc.Sent. A second call would block.
type outcome chan error

func (o outcome) Sent(err error) { o <- err }

// start has a payload leave in the background, padded as a record is.
func start(t testing.TB, p rpc.BackgroundPayload, sock int) outcome {
	t.Helper()
	done := make(outcome, 1)
	n := p.Len()
	p.Pad(-n & 3)
	if !p.Start(sock, header(n), false, done) {
		t.Fatal("not started")
	}
	return done
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

// receiveReply reads a header and as much data as that says, and the padding.
func receiveReply(t testing.TB, peer int) []byte {
	t.Helper()
	head := receive(t, peer, headerLen)
	n := int(binary.BigEndian.Uint32(head[headerLen-4:]))
	if !bytes.Equal(head, header(n)) {
		t.Fatalf("header %q", head)
	}
	b := receive(t, peer, n+(-n&3))
	if pad := b[n:]; !bytes.Equal(pad, make([]byte, len(pad))) {
		t.Errorf("padding % x", pad)
	}
	return b[:n]
}

// receive reads n bytes.
func receive(t testing.TB, peer, n int) []byte {
	t.Helper()
	buf := make([]byte, n)
	for at := 0; at < n; {
		m, err := unix.Read(peer, buf[at:min(n, at+100_000)])
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			if ready, _ := unix.Poll([]unix.PollFd{{Fd: int32(peer), Events: unix.POLLIN}}, 20_000); ready == 0 {
				t.Fatalf("%d of %d bytes came", at, n)
			}
		case err != nil || m == 0:
			t.Fatalf("%d of %d bytes came: %v", at, n, err)
		default:
			at += m
		}
	}
	return buf
}

// Every mode gives the file's bytes, as many as there are, whatever the offset
// and the length, page boundaries and the pipe's last slot included.
func TestRead(t *testing.T) {
	fd := openFile(t)
	for _, mode := range []Mode{Auto, Splice, Uring, Copy} {
		s := newSender(t, mode, 8)
		for _, off := range []int{0, 1, 4095, 4096, 4097, 1<<20 - 1, fileSize - 1<<20, fileSize - 1, fileSize} {
			for _, n := range []int{1, 4096, 32<<10 + 1, 64 << 10, 1<<20 - 4096, 1<<20 - 1, 1 << 20, 4 << 20} {
				p, err := s.Read(0, fd, int64(off), n, false)
				must(t, err)
				want := pattern(off, max(0, min(n, fileSize-off)))
				sock, peer := socketPair(t)
				if _, later := p.(Unfilled); !later && p.Len() != len(want) {
					t.Fatalf("%v, %d+%d: %d bytes, want %d", mode, off, n, p.Len(), len(want))
				}
				if got := sendAll(t, p, sock, peer); !bytes.Equal(got, want) {
					t.Fatalf("%v, %d+%d: other bytes", mode, off, n)
				}
				p.Release()
				unix.Shutdown(sock, unix.SHUT_RDWR)
			}
		}
		if s.io.Pipes.InUse() != 0 || s.io.Pipes.Discarded.Load() != 0 || s.copied.Load() != 0 {
			t.Errorf("%v: %d pipes in use, %d discarded, %d bytes copied still held", mode, s.io.Pipes.InUse(), s.io.Pipes.Discarded.Load(), s.copied.Load())
		}
		st := s.Stats()
		if st.Spliced > 0 != (mode == Auto || mode == Splice) || st.Ringed > 0 != (mode == Uring) || st.Copied > 0 != (mode == Copy) || st.NoPipe+st.Refused+st.NoRing+st.NoRoom > 0 {
			t.Errorf("%v: %+v", mode, st)
		}
	}
}

// Without a pipe a read is copied; beyond the budget for copies there is none.
func TestFallback(t *testing.T) {
	fd := openFile(t)
	s := newSender(t, Auto, 0)
	var held []rpc.Payload
	for {
		p, err := s.Read(0, fd, 0, 1<<20, false)
		must(t, err)
		if p == nil {
			break
		}
		if held = append(held, p); len(held) > copyBudget>>20 {
			t.Fatal("more is held than the budget")
		}
	}
	if len(held) != copyBudget>>20 || s.NoPipe.Load() != uint64(len(held)+1) || s.NoRoom.Load() != 1 {
		t.Errorf("%d reads of 1 MiB are held, %d had no pipe, %d no room", len(held), s.NoPipe.Load(), s.NoRoom.Load())
	}
	for _, p := range held {
		p.Release()
	}
	p, err := s.Read(0, fd, 7, 1<<20, false)
	must(t, err)
	sock, peer := socketPair(t)
	if got := sendAll(t, p, sock, peer); !bytes.Equal(got, pattern(7, 1<<20)) {
		t.Error("other bytes")
	}
	p.Release()
}

// A payload that is given up half sent leaves no pipe with bytes in the pool.
func TestReleaseHalfSent(t *testing.T) {
	fd := openFile(t)
	s := newSender(t, Splice, 2)
	for range 5 {
		p, err := s.Read(0, fd, 3, 1<<20, false)
		must(t, err)
		sock, _ := socketPair(t)
		if _, err := p.SendTo(sock, false); err != unix.EAGAIN {
			t.Fatalf("SendTo a small socket: %v", err)
		}
		p.Release()
	}
	if s.io.Pipes.InUse() != 0 || s.io.Pipes.Discarded.Load() != 5 {
		t.Errorf("%d in use, %d discarded; want 0 and 5", s.io.Pipes.InUse(), s.io.Pipes.Discarded.Load())
	}
	p, err := s.Read(0, fd, 100, 50_000, false)
	must(t, err)
	sock, peer := socketPair(t)
	if got := sendAll(t, p, sock, peer); !bytes.Equal(got, pattern(100, 50_000)) {
		t.Error("bytes of another read")
	}
	p.Release()
}

// A connection that breaks is an error, not a loop.
func TestSendToBroken(t *testing.T) {
	fd := openFile(t)
	for _, mode := range []Mode{Splice, Copy} {
		s := newSender(t, mode, 1)
		p, err := s.Read(0, fd, 0, 1<<20, false)
		must(t, err)
		sock, peer := socketPair(t)
		must(t, unix.Shutdown(peer, unix.SHUT_RDWR))
		if _, err := p.SendTo(sock, false); err != unix.EPIPE {
			t.Errorf("%v: %v, want EPIPE", mode, err)
		}
		p.Release()
	}
}

func TestReadError(t *testing.T) {
	dir, err := unix.Open(t.TempDir(), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(dir)
	for _, mode := range []Mode{Splice, Copy} {
		s := newSender(t, mode, 1)
		if p, err := s.Read(0, dir, 0, 4096, false); err == nil || p != nil {
			t.Errorf("%v: a directory is read", mode)
		}
		if s.io.Pipes.InUse() != 0 || s.copied.Load() != 0 {
			t.Errorf("%v: %d pipes, %d bytes held after an error", mode, s.io.Pipes.InUse(), s.copied.Load())
		}
	}
}

func TestParseMode(t *testing.T) {
	for name, want := range map[string]Mode{"auto": Auto, "splice": Splice, "uring": Uring, "copy": Copy} {
		m, err := ParseMode(name)
		if err != nil || m != want || m.String() != name || fmt.Sprint(m) != name {
			t.Errorf("%s: %v, %v", name, m, err)
		}
	}
	for _, bad := range []string{"", "Auto", "mmap"} {
		if _, err := ParseMode(bad); err == nil {
			t.Errorf("%q is a mode", bad)
		}
	}
}
