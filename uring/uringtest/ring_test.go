package uringtest_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/uring"
	"sluice/uring/uringtest"
)

// world is files and sockets for operations to work on.
type world struct {
	t      *testing.T
	file   int
	rd, w  int // pipe with 10 bytes
	rd2    int // pipe with none
	w2     int
	a, b   int // sockets; a has sent 5 bytes to b
	buf    []byte
	pool   []byte
	hour   unix.KernelTimespec
	moment unix.KernelTimespec
	stat   unix.Statx_t
	path   *byte
	how    unix.OpenHow
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, buf: make([]byte, 100), pool: make([]byte, 100), hour: uring.Timespec(time.Hour),
		moment: uring.Timespec(time.Millisecond), how: unix.OpenHow{Flags: unix.O_RDONLY}}
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte("twenty bytes of data"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	w.file = int(f.Fd())
	w.path, _ = unix.BytePtrFromString(name)
	w.rd, w.w = w.pair(func(p *[2]int) error { return unix.Pipe2(p[:], unix.O_CLOEXEC) })
	w.rd2, w.w2 = w.pair(func(p *[2]int) error { return unix.Pipe2(p[:], unix.O_CLOEXEC) })
	w.a, w.b = w.pair(func(p *[2]int) (err error) {
		*p, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		return err
	})
	unix.Write(w.w, make([]byte, 10))
	unix.Write(w.a, make([]byte, 5))
	return w
}

func (w *world) pair(open func(*[2]int) error) (int, int) {
	w.t.Helper()
	var p [2]int
	if err := open(&p); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { unix.Close(p[0]); unix.Close(p[1]) })
	return p[0], p[1]
}

const here = uring.CurrentPosition

// cases are short sequences of operations; link joins them in a chain.
var cases = []struct {
	name string
	link uint8
	ops  []func(w *world, s *uring.SQE)
}{
	{"nop", 0, ops(func(w *world, s *uring.SQE) { s.PrepNop() })},
	{"read", 0, ops(func(w *world, s *uring.SQE) { s.PrepRead(w.file, w.buf, 3) })},
	{"read at the position", 0, ops(func(w *world, s *uring.SQE) { s.PrepRead(w.file, w.buf[:7], here) })},
	{"read of a pipe", 0, ops(func(w *world, s *uring.SQE) { s.PrepRead(w.rd, w.buf, 0) })},
	{"read without waiting", 0, ops(func(w *world, s *uring.SQE) { s.PrepRead(w.rd2, w.buf, here); s.OpFlags = unix.RWF_NOWAIT })},
	{"read of nothing", 0, ops(func(w *world, s *uring.SQE) { s.PrepRead(-1, w.buf, 0) })},
	{"read to nowhere", 0, ops(func(w *world, s *uring.SQE) { s.PrepRead(w.file, w.buf, 0); s.Addr = 8 })},
	{"write", 0, ops(func(w *world, s *uring.SQE) { s.PrepWrite(w.file, w.buf, 30) })},
	{"readv", 0, ops(func(w *world, s *uring.SQE) { s.PrepReadv(w.file, w.iovecs(), 1) })},
	{"writev", 0, ops(func(w *world, s *uring.SQE) { s.PrepWritev(w.w, w.iovecs(), 0) })},
	{"splice", 0, ops(func(w *world, s *uring.SQE) { s.PrepSplice(w.file, 5, w.w, here, 100, 0) })},
	{"splice chain", uring.IOSQE_IO_LINK, ops(
		func(w *world, s *uring.SQE) { s.PrepSplice(w.file, 0, w.w2, here, 20, 0) },
		func(w *world, s *uring.SQE) { s.PrepSend(w.a, w.buf[:3], unix.MSG_MORE) },
		func(w *world, s *uring.SQE) { s.PrepSplice(w.rd2, here, w.a, here, 20, 0) })},
	{"short splice in a chain", uring.IOSQE_IO_LINK, ops(
		func(w *world, s *uring.SQE) { s.PrepSplice(w.file, 0, w.w2, here, 30, 0) },
		func(w *world, s *uring.SQE) { s.PrepSplice(w.rd2, here, w.a, here, 20, 0) })},
	{"hard links", uring.IOSQE_IO_HARDLINK, ops(
		func(w *world, s *uring.SQE) { s.PrepRead(-1, w.buf, 0) },
		func(w *world, s *uring.SQE) { s.PrepNop() })},
	{"broken chain", uring.IOSQE_IO_LINK, ops(
		func(w *world, s *uring.SQE) { s.PrepNop() },
		func(w *world, s *uring.SQE) { s.PrepRead(-1, w.buf, 0) },
		func(w *world, s *uring.SQE) { s.PrepNop() })},
	{"unknown in a chain", uring.IOSQE_IO_LINK, ops(
		func(w *world, s *uring.SQE) { s.PrepNop() },
		func(w *world, s *uring.SQE) { s.Opcode = 255 })},
	{"splice without waiting", 0, ops(func(w *world, s *uring.SQE) {
		s.PrepSplice(w.rd2, here, w.w, here, 1, unix.SPLICE_F_NONBLOCK)
	})},
	{"tee", 0, ops(func(w *world, s *uring.SQE) { s.PrepTee(w.rd, w.w2, 100, 0) })},
	{"send", 0, ops(func(w *world, s *uring.SQE) { s.PrepSend(w.b, w.buf, unix.MSG_WAITALL) })},
	{"recv", 0, ops(func(w *world, s *uring.SQE) { s.PrepRecv(w.b, w.buf, 0) })},
	{"recv all", 0, ops(func(w *world, s *uring.SQE) { s.PrepRecv(w.b, w.buf[:5], unix.MSG_WAITALL) })},
	{"recv without waiting", 0, ops(func(w *world, s *uring.SQE) { s.PrepRecv(w.a, w.buf, unix.MSG_DONTWAIT) })},
	{"sendmsg", 0, ops(func(w *world, s *uring.SQE) { s.PrepSendmsg(w.b, w.msg(), 0) })},
	{"recvmsg", 0, ops(func(w *world, s *uring.SQE) { s.PrepRecvmsg(w.b, w.msg(), 0) })},
	{"fadvise, fsync", 0, ops(
		func(w *world, s *uring.SQE) { s.PrepFadvise(w.file, 0, 20, unix.FADV_WILLNEED) },
		func(w *world, s *uring.SQE) { s.PrepFsync(w.file, uring.IORING_FSYNC_DATASYNC) })},
	{"statx", 0, ops(func(w *world, s *uring.SQE) { s.PrepStatx(unix.AT_FDCWD, w.path, 0, unix.STATX_SIZE, &w.stat) })},
	{"close", 0, ops(func(w *world, s *uring.SQE) { s.PrepClose(-1) })},
	{"poll", 0, ops(func(w *world, s *uring.SQE) { s.PrepPollAdd(w.rd, unix.POLLIN, 0) })},
	{"timeout", 0, ops(func(w *world, s *uring.SQE) { s.PrepTimeout(&w.moment, 0, 0) })},
	{"timeout removed", 0, ops(
		func(w *world, s *uring.SQE) { s.PrepTimeout(&w.hour, 0, 0) },
		func(w *world, s *uring.SQE) { s.PrepTimeoutRemove(0) })},
	{"timeout updated", 0, ops(
		func(w *world, s *uring.SQE) { s.PrepTimeout(&w.hour, 0, 0) },
		func(w *world, s *uring.SQE) { s.PrepTimeoutUpdate(0, &w.moment, 0) })},
	{"link timeout", uring.IOSQE_IO_LINK, ops(
		func(w *world, s *uring.SQE) { s.PrepRead(w.rd2, w.buf, here) },
		func(w *world, s *uring.SQE) { s.PrepLinkTimeout(&w.moment, 0) })},
	{"link timeout in time", uring.IOSQE_IO_LINK, ops(
		func(w *world, s *uring.SQE) { s.PrepRead(w.rd, w.buf[:10], here) },
		func(w *world, s *uring.SQE) { s.PrepLinkTimeout(&w.hour, 0) },
		func(w *world, s *uring.SQE) { s.PrepNop() })},
	{"poll removed", 0, ops(
		func(w *world, s *uring.SQE) { s.PrepPollAdd(w.rd2, unix.POLLIN, 0) },
		func(w *world, s *uring.SQE) { s.PrepPollRemove(0) })},
	{"cancel", 0, ops(
		func(w *world, s *uring.SQE) { s.PrepRead(w.rd2, w.buf, here) },
		func(w *world, s *uring.SQE) { s.PrepCancel(0, 0) })},
	{"cancel by descriptor", 0, ops(
		func(w *world, s *uring.SQE) { s.PrepRead(w.rd2, w.buf, here) },
		func(w *world, s *uring.SQE) { s.PrepCancelFD(w.rd2, uring.IORING_ASYNC_CANCEL_ALL) })},
	{"cancel of nothing", 0, ops(func(w *world, s *uring.SQE) { s.PrepCancel(77, 0) })},
	{"provided buffers", uring.IOSQE_IO_LINK, ops(
		func(w *world, s *uring.SQE) { s.PrepProvideBuffers(w.pool, 4, 10, 2, 5) },
		func(w *world, s *uring.SQE) { s.PrepRecvSelect(w.b, 0, 2) },
		func(w *world, s *uring.SQE) { s.PrepRemoveBuffers(100, 2) })},
	{"no buffers", 0, ops(func(w *world, s *uring.SQE) { s.PrepRecvSelect(w.b, 0, 3) })},
	{"registered file", 0, ops(func(w *world, s *uring.SQE) { s.PrepRead(1, w.buf, 0); s.Flags |= uring.IOSQE_FIXED_FILE })},
	{"empty slot", 0, ops(func(w *world, s *uring.SQE) { s.PrepRead(0, w.buf, 0); s.Flags |= uring.IOSQE_FIXED_FILE })},
}

func ops(list ...func(w *world, s *uring.SQE)) []func(w *world, s *uring.SQE) { return list }

func (w *world) iovecs() []unix.Iovec {
	v := []unix.Iovec{{Base: &w.buf[0]}, {Base: &w.buf[50]}}
	v[0].SetLen(4)
	v[1].SetLen(6)
	return v
}

func (w *world) msg() *unix.Msghdr {
	m := &unix.Msghdr{Iov: &w.iovecs()[0]}
	m.SetIovlen(1)
	return m
}

// TestLikeTheKernel runs every case on a real ring and on the fake, in equal
// worlds, and compares the results.
func TestLikeTheKernel(t *testing.T) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			real, err := uring.New(uring.Config{})
			if err != nil {
				t.Skip(err)
			}
			defer real.Close()
			fake := uringtest.New(uringtest.Config{Seed: 1, Log: t.Logf})
			defer fake.Close()
			want, got := runCase(t, real, c.link, c.ops), runCase(t, fake, c.link, c.ops)
			if !slices.Equal(want, got) {
				t.Errorf("the kernel says %v, the fake %v", want, got)
			}
		})
	}
}

type filesQueue interface {
	uring.Queue
	RegisterFiles(fds []int32) error
}

// runCase returns the results in the order of the operations, with the flags
// that do not depend on luck.
func runCase(t *testing.T, q filesQueue, link uint8, list []func(*world, *uring.SQE)) []string {
	t.Helper()
	w := newWorld(t)
	if err := q.RegisterFiles([]int32{-1, int32(w.file)}); err != nil {
		t.Fatal(err)
	}
	for i, prep := range list {
		s := q.NextSQE()
		prep(w, s)
		s.UserData = uint64(i)
		if i < len(list)-1 {
			s.Flags |= link
		}
		if link == 0 { // one by one, so that both see the same
			if _, err := q.Submit(); err != nil {
				t.Fatal(err)
			}
		}
	}
	results := make([]string, len(list))
	buf := make([]uring.CQE, 1)
	for range list {
		n := 0
		for deadline := time.Now().Add(10 * time.Second); n == 0; n = q.Reap(buf) {
			if _, err := q.SubmitAndWait(1, time.Second); err != nil {
				t.Fatal(err)
			}
			if time.Now().After(deadline) {
				t.Fatalf("no completion after %v", results)
			}
		}
		const stable = uring.IORING_CQE_F_BUFFER | uring.IORING_CQE_F_MORE | 0xffff0000
		results[buf[0].UserData] = fmt.Sprintf("%d/%#x", buf[0].Res, buf[0].Flags&stable)
	}
	return results
}

// story runs reads, writes and splices under faults and tells what happened.
func story(t *testing.T, seed uint64, faults uringtest.Faults) []string {
	t.Helper()
	var log []string
	q := uringtest.New(uringtest.Config{Seed: seed, CQEntries: 4, Faults: faults, Log: func(f string, a ...any) {
		log = append(log, fmt.Sprintf(f, a...))
	}})
	defer q.Close()
	w := newWorld(t)
	buf := make([]uring.CQE, 3)
	for i := range uint64(60) {
		for _, prep := range []func(s *uring.SQE){
			func(s *uring.SQE) { s.PrepRead(w.file, w.buf, i%10) },
			func(s *uring.SQE) { s.PrepWrite(w.file, w.buf[:20], 0); s.Flags = uring.IOSQE_IO_LINK },
			func(s *uring.SQE) { s.PrepSplice(w.file, 0, w.w2, here, 10, 0); s.Flags = uring.IOSQE_IO_LINK },
			func(s *uring.SQE) { s.PrepSplice(w.rd2, here, w.w, here, 10, unix.SPLICE_F_NONBLOCK) },
			func(s *uring.SQE) { s.PrepSend(w.a, w.buf[:2], 0) },
			func(s *uring.SQE) { s.PrepRecv(w.b, w.buf[:2], 0) },
			func(s *uring.SQE) { s.PrepCancel(1000+i, 0) },
		} {
			if s := q.NextSQE(); s != nil {
				prep(s)
				s.UserData = i
			}
		}
		_, err := q.SubmitAndWait(int(i%3), 0)
		log = append(log, fmt.Sprint(err, q.Counts(), q.Overflowed()))
		n := q.Reap(buf)
		log = append(log, fmt.Sprint(buf[:n]))
		unix.Read(w.rd, w.buf) // keep the pipe from filling up
		unix.Write(w.w, w.buf[:5])
	}
	return log
}

func TestSeedReproduces(t *testing.T) {
	a, b := story(t, 3, uringtest.AllFaults(0.2)), story(t, 3, uringtest.AllFaults(0.2))
	if !slices.Equal(a, b) {
		for i := range min(len(a), len(b)) {
			if a[i] != b[i] {
				t.Fatalf("line %d: %q, then %q", i, a[i], b[i])
			}
		}
		t.Fatalf("%d lines, then %d", len(a), len(b))
	}
	if slices.Equal(a, story(t, 4, uringtest.AllFaults(0.2))) {
		t.Error("another seed tells the same story")
	}
}

// TestFaultsHappen: each fault shows, and none without being asked for.
func TestFaultsHappen(t *testing.T) {
	res := func(errno unix.Errno) string { return fmt.Sprintf("res %d ", -int(errno)) }
	for name, c := range map[string]struct {
		faults uringtest.Faults
		sign   string
	}{
		"Short":         {uringtest.Faults{Short: 0.3}, "res 1 "},
		"EAGAIN":        {uringtest.Faults{EAGAIN: 0.1}, res(unix.EAGAIN)},
		"EINTR":         {uringtest.Faults{EINTR: 0.1}, res(unix.EINTR)},
		"ENOBUFS":       {uringtest.Faults{ENOBUFS: 0.1}, res(unix.ENOBUFS)},
		"EIO":           {uringtest.Faults{EIO: 0.1}, res(unix.EIO)},
		"PartialSubmit": {uringtest.Faults{PartialSubmit: 0.1}, "enter: takes"},
		"EnterEAGAIN":   {uringtest.Faults{EnterEAGAIN: 0.1}, "enter: resource temporarily unavailable"},
		"EnterEBUSY":    {uringtest.Faults{EnterEBUSY: 0.1}, "enter: device or resource busy"},
		"overflow":      {uringtest.Faults{}, "true"},
	} {
		if !strings.Contains(strings.Join(story(t, 1, c.faults), "\n"), c.sign) {
			t.Errorf("%s does not happen", name)
		}
	}
	orderly := strings.Join(story(t, 1, uringtest.Faults{}), "\n")
	for _, sign := range []string{res(unix.EINTR), res(unix.EIO), res(unix.ENOBUFS), "enter:"} {
		if strings.Contains(orderly, sign) {
			t.Errorf("%q happens without being asked for", sign)
		}
	}
}

func TestCancelTooLate(t *testing.T) {
	q := uringtest.New(uringtest.Config{Faults: uringtest.Faults{TooLate: 1}})
	defer q.Close()
	w := newWorld(t)
	q.NextSQE().PrepRead(w.rd2, w.buf, here)
	q.Submit()
	s := q.NextSQE()
	s.PrepCancel(0, 0)
	s.UserData = 1
	q.SubmitAndWait(1, time.Second)
	var c [2]uring.CQE
	if n := q.Reap(c[:]); n != 1 || !errors.Is(c[0].Err(), unix.EALREADY) {
		t.Errorf("%d completions, %v", n, c[0].Err())
	}
	unix.Write(w.w2, []byte("x"))
	q.SubmitAndWait(1, time.Second)
	if n := q.Reap(c[:]); n != 1 || c[0].Res != 1 {
		t.Errorf("the read: %d completions, %d", n, c[0].Res)
	}
}

func TestMultishotEndsEarly(t *testing.T) {
	for p, more := range map[float64]bool{0: true, 1: false} {
		q := uringtest.New(uringtest.Config{Faults: uringtest.Faults{EndMultishot: p}})
		w := newWorld(t)
		q.NextSQE().PrepProvideBuffers(w.pool, 10, 10, 0, 0)
		q.SubmitAndWait(1, time.Second)
		var c [2]uring.CQE
		q.Reap(c[:])
		q.NextSQE().PrepRecvMultishot(w.b, 0, 0)
		q.SubmitAndWait(1, time.Second)
		if n := q.Reap(c[:]); n != 1 || c[0].Res != 5 || c[0].More() != more {
			t.Errorf("probability %v: %d completions, %+v", p, n, c[0])
		}
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestSendZC(t *testing.T) {
	q := uringtest.New(uringtest.Config{})
	defer q.Close()
	w := newWorld(t)
	q.NextSQE().PrepSendZC(w.a, w.buf, 0, 0)
	var c [4]uring.CQE
	n := 0
	for n < 2 {
		q.SubmitAndWait(1, time.Second)
		n += q.Reap(c[n:])
	}
	if c[0].Res != 100 || !c[0].More() || !c[1].Notif() || c[1].More() || q.Counts() != (uring.Counts{}) {
		t.Errorf("%+v, %+v", c[:2], q.Counts())
	}
}

func TestExec(t *testing.T) {
	q := uringtest.New(uringtest.Config{Exec: func(s *uring.SQE) (int32, bool) {
		return 42, s.Opcode == uring.IORING_OP_MSG_RING
	}})
	defer q.Close()
	q.NextSQE().PrepMsgRing(3, 0, 0)
	s := q.NextSQE()
	s.PrepNop()
	s.UserData = 1
	q.SubmitAndWait(2, time.Second)
	var c [2]uring.CQE
	q.Reap(c[:])
	for _, c := range c {
		if want := int32(42 * (1 - c.UserData)); c.Res != want {
			t.Errorf("operation %d: %d, want %d", c.UserData, c.Res, want)
		}
	}
}
