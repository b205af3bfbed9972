package sendpath

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/ioctx"
	"sluice/rpc"
)

const fileSize = 3<<20 + 77

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
	s := New(mode, &ioctx.Context{Pipes: ioctx.NewPipes(pipes)})
	t.Cleanup(s.io.Pipes.Close)
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

// sendAll sends a payload to a peer that takes a little at a time, and returns
// what he got.
func sendAll(t testing.TB, p rpc.Payload, sock, peer int) (got []byte) {
	t.Helper()
	buf := make([]byte, 100_000)
	for p.Len() > 0 {
		before := p.Len()
		n, err := p.SendTo(sock, true)
		if err != nil && err != unix.EAGAIN || before-p.Len() != n {
			t.Fatalf("SendTo: %d, %v; %d of %d left", n, err, p.Len(), before)
		}
		for {
			m, err := unix.Read(peer, buf)
			if m <= 0 || err != nil {
				break
			}
			got = append(got, buf[:m]...)
		}
	}
	return got
}

// Every mode gives the file's bytes, as many as there are, whatever the offset
// and the length, page boundaries and the pipe's last slot included.
func TestRead(t *testing.T) {
	fd := openFile(t)
	for _, mode := range []Mode{Auto, Splice, Copy} {
		s := newSender(t, mode, 4)
		for _, off := range []int{0, 1, 4095, 4096, 4097, 1<<20 - 1, fileSize - 1<<20, fileSize - 1, fileSize} {
			for _, n := range []int{1, 4096, 32<<10 + 1, 64 << 10, 1<<20 - 4096, 1<<20 - 1, 1 << 20} {
				p, err := s.Read(fd, int64(off), n)
				must(t, err)
				want := pattern(off, max(0, min(n, fileSize-off)))
				sock, peer := socketPair(t)
				if p.Len() != len(want) {
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
		if spliced := s.Spliced.Load() > 0; spliced != (mode != Copy) || s.Fallback.Load() != 0 {
			t.Errorf("%v: %d spliced, %d copied, %d for want of splice", mode, s.Spliced.Load(), s.Copied.Load(), s.Fallback.Load())
		}
	}
}

// Without a pipe a read is copied; beyond the budget for copies there is none.
func TestFallback(t *testing.T) {
	fd := openFile(t)
	s := newSender(t, Auto, 0)
	var held []rpc.Payload
	for {
		p, err := s.Read(fd, 0, 1<<20)
		must(t, err)
		if p == nil {
			break
		}
		if held = append(held, p); len(held) > copyBudget>>20 {
			t.Fatal("more is held than the budget")
		}
	}
	if len(held) != copyBudget>>20 || s.Fallback.Load() != uint64(len(held)+1) {
		t.Errorf("%d reads of 1 MiB are held, %d fell back", len(held), s.Fallback.Load())
	}
	for _, p := range held {
		p.Release()
	}
	p, err := s.Read(fd, 7, 1<<20)
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
		p, err := s.Read(fd, 3, 1<<20)
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
	p, err := s.Read(fd, 100, 50_000)
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
		p, err := s.Read(fd, 0, 1<<20)
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
		if p, err := s.Read(dir, 0, 4096); err == nil || p != nil {
			t.Errorf("%v: a directory is read", mode)
		}
		if s.io.Pipes.InUse() != 0 || s.copied.Load() != 0 {
			t.Errorf("%v: %d pipes, %d bytes held after an error", mode, s.io.Pipes.InUse(), s.copied.Load())
		}
	}
}

func TestParseMode(t *testing.T) {
	for name, want := range map[string]Mode{"auto": Auto, "splice": Splice, "copy": Copy} {
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
