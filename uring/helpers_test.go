package uring_test

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/uring"
)

// waitMax is how long a test waits for what must come.
const waitMax = 10 * time.Second

// newRing makes a ring, or skips the test where there is no io_uring.
func newRing(t testing.TB, cfg uring.Config) *uring.Ring {
	t.Helper()
	r, err := uring.New(cfg)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

var probe = sync.OnceValues(uring.NewProbe)

// needOps skips the test where the kernel lacks an operation.
func needOps(t testing.TB, ops ...uring.Opcode) {
	t.Helper()
	p, err := probe()
	if err == nil {
		err = p.RequireOps(ops...)
	}
	if err != nil {
		t.Skip(err)
	}
}

// queue prepares an entry with f and gives it user data data.
func queue(t testing.TB, r uring.Queue, data uint64, f func(s *uring.SQE)) {
	t.Helper()
	s := r.NextSQE()
	if s == nil {
		t.Fatal("the submission queue is full")
	}
	f(s)
	s.UserData = data
}

// reapN submits and returns the next n completions by user data, of which each
// must be different.
func reapN(t testing.TB, r uring.Queue, n int) map[uint64]uring.CQE {
	t.Helper()
	got := make(map[uint64]uring.CQE)
	for _, c := range reapList(t, r, n) {
		if _, dup := got[c.UserData]; dup {
			t.Fatalf("two completions with user data %#x", c.UserData)
		}
		got[c.UserData] = c
	}
	return got
}

func reapList(t testing.TB, r uring.Queue, n int) []uring.CQE {
	t.Helper()
	var got []uring.CQE
	buf := make([]uring.CQE, 1)
	for deadline := time.Now().Add(waitMax); len(got) < n; {
		if _, err := r.SubmitAndWait(1, time.Second); err != nil {
			t.Fatal(err)
		}
		if r.Reap(buf) == 1 {
			got = append(got, buf[0])
		} else if time.Now().After(deadline) {
			t.Fatalf("%d completions of %d after %v: %+v", len(got), n, waitMax, got)
		}
	}
	return got
}

// do runs one operation and returns its completion.
func do(t testing.TB, r uring.Queue, f func(s *uring.SQE)) uring.CQE {
	t.Helper()
	queue(t, r, 99, f)
	return reapN(t, r, 1)[99]
}

func wantRes(t testing.TB, what string, c uring.CQE, want int32) {
	t.Helper()
	if c.Res == want {
		return
	}
	if want < 0 {
		t.Fatalf("%s: got %d (%v), want %v", what, c.Res, c.Err(), unix.Errno(-want))
	}
	t.Fatalf("%s: got %d (%v), want %d", what, c.Res, c.Err(), want)
}

func errno(e unix.Errno) int32 { return -int32(e) }

// pattern is n bytes that differ from their neighbours at every distance that
// a slip in an offset would have.
func pattern(n int) []byte {
	b := make([]byte, n)
	x := uint32(1)
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	return b
}

func tempFile(t testing.TB, content []byte) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if _, err := f.Write(content); err != nil {
		t.Fatal(err)
	}
	return f
}

func fdOf(f *os.File) int { return int(f.Fd()) }

func pipe(t testing.TB, flags int) (r, w int) {
	t.Helper()
	var p [2]int
	if err := unix.Pipe2(p[:], flags|unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(p[0]); unix.Close(p[1]) })
	return p[0], p[1]
}

func socketpair(t testing.TB, typ int) (a, b int) {
	t.Helper()
	p, err := unix.Socketpair(unix.AF_UNIX, typ|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(p[0]); unix.Close(p[1]) })
	return p[0], p[1]
}

// tcpPair is a connected pair over loopback; flags are for both ends.
func tcpPair(t testing.TB, flags int) (a, b int) {
	t.Helper()
	l := listener(t)
	sa, err := unix.Getsockname(l)
	if err != nil {
		t.Fatal(err)
	}
	a, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(a) })
	if err := unix.Connect(a, sa); err != nil {
		t.Fatal(err)
	}
	if b, _, err = unix.Accept4(l, unix.SOCK_CLOEXEC|flags); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(b) })
	if err := unix.SetNonblock(a, flags&unix.SOCK_NONBLOCK != 0); err != nil {
		t.Fatal(err)
	}
	return a, b
}

func listener(t testing.TB) int {
	t.Helper()
	l, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(l) })
	if err := unix.Bind(l, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(l, 8); err != nil {
		t.Fatal(err)
	}
	return l
}

func cString(t testing.TB, s string) *byte {
	t.Helper()
	p, err := unix.BytePtrFromString(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
