package uring_test

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/uring"
)

func TestSendRecv(t *testing.T) {
	r := newRing(t, uring.Config{})
	a, b := socketpair(t, unix.SOCK_STREAM)
	data, got := pattern(1000), make([]byte, 2000)
	queue(t, r, 1, func(s *uring.SQE) { s.PrepRecv(b, got, 0) })
	queue(t, r, 2, func(s *uring.SQE) { s.PrepSend(a, data, unix.MSG_NOSIGNAL) })
	c := reapN(t, r, 2)
	wantRes(t, "RECV", c[1], 1000)
	wantRes(t, "SEND", c[2], 1000)
	if !bytes.Equal(got[:1000], data) {
		t.Error("RECV brought other bytes")
	}
}

func TestRecvPollFirst(t *testing.T) {
	r := newRing(t, uring.Config{})
	a, b := socketpair(t, unix.SOCK_STREAM)
	unix.Write(a, []byte("xy"))
	c := do(t, r, func(s *uring.SQE) {
		s.PrepRecv(b, make([]byte, 1), 0)
		s.IOPrio = uring.IORING_RECVSEND_POLL_FIRST
	})
	wantRes(t, "RECV", c, 1)
	if c.Flags&uring.IORING_CQE_F_SOCK_NONEMPTY == 0 {
		t.Error("RECV does not say that there is more")
	}
}

func TestSendmsgRecvmsg(t *testing.T) {
	r := newRing(t, uring.Config{})
	a, b := socketpair(t, unix.SOCK_SEQPACKET)
	data := pattern(300)
	out := iovec(data[:200], data[200:])
	msg := &unix.Msghdr{Iov: &out[0]}
	msg.SetIovlen(len(out))
	wantRes(t, "SENDMSG", do(t, r, func(s *uring.SQE) { s.PrepSendmsg(a, msg, 0) }), 300)

	x, y := make([]byte, 100), make([]byte, 100)
	in := iovec(x, y)
	msg = &unix.Msghdr{Iov: &in[0]}
	msg.SetIovlen(len(in))
	wantRes(t, "RECVMSG", do(t, r, func(s *uring.SQE) { s.PrepRecvmsg(b, msg, 0) }), 200)
	if !bytes.Equal(append(x, y...), data[:200]) || msg.Flags&unix.MSG_TRUNC == 0 {
		t.Errorf("RECVMSG brought other bytes, or flags %#x without MSG_TRUNC", msg.Flags)
	}
}

func TestSendZC(t *testing.T) {
	needOps(t, uring.IORING_OP_SEND_ZC)
	r := newRing(t, uring.Config{})
	a, b := tcpPair(t, 0)
	data := pattern(50000)
	queue(t, r, 1, func(s *uring.SQE) { s.PrepSendZC(a, data, 0, uring.IORING_SEND_ZC_REPORT_USAGE) })
	if _, err := r.SubmitAndWait(1, waitMax); err != nil {
		t.Fatal(err)
	}
	if got := r.Counts().InKernel; got != 1 {
		t.Errorf("%d operations in the kernel while the buffer is not free, want 1", got)
	}
	got := make([]byte, 0, len(data))
	for len(got) < len(data) {
		n, err := unix.Read(b, got[len(got):cap(got)])
		if err != nil || n == 0 {
			t.Fatal(n, err)
		}
		got = got[:len(got)+n]
	}
	cs := reapList(t, r, 2)
	wantRes(t, "SEND_ZC", cs[0], 50000)
	if !cs[0].More() || cs[0].Notif() || cs[1].More() || !cs[1].Notif() {
		t.Errorf("SEND_ZC: flags %#x and %#x", cs[0].Flags, cs[1].Flags)
	}
	if !bytes.Equal(got, data) {
		t.Error("SEND_ZC sent other bytes")
	}
	if got := r.Counts(); got != (uring.Counts{}) {
		t.Errorf("counts %+v at the end", got)
	}
}

func TestSendmsgZC(t *testing.T) {
	needOps(t, uring.IORING_OP_SENDMSG_ZC)
	r := newRing(t, uring.Config{})
	a, _ := tcpPair(t, 0)
	out := iovec(pattern(100), pattern(50))
	msg := &unix.Msghdr{Iov: &out[0]}
	msg.SetIovlen(len(out))
	queue(t, r, 1, func(s *uring.SQE) { s.PrepSendmsgZC(a, msg, 0) })
	wantRes(t, "SENDMSG_ZC", reapList(t, r, 2)[0], 150)
}

func TestAccept(t *testing.T) {
	r := newRing(t, uring.Config{})
	l := listener(t)
	sa, _ := unix.Getsockname(l)
	dial := func() int {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			err = unix.Connect(fd, sa)
		}
		if err != nil {
			t.Fatal(err)
		}
		return fd
	}
	addr, addrLen := new(unix.RawSockaddrAny), new(uint32)
	*addrLen = unix.SizeofSockaddrAny
	queue(t, r, 1, func(s *uring.SQE) { s.PrepAccept(l, addr, addrLen, unix.SOCK_CLOEXEC) })
	r.Submit()
	defer unix.Close(dial())
	c := reapN(t, r, 1)[1]
	if c.Err() != nil {
		t.Fatal("ACCEPT:", c.Err())
	}
	unix.Close(int(c.Res))
	if addr.Addr.Family != unix.AF_INET || *addrLen != unix.SizeofSockaddrInet4 {
		t.Errorf("ACCEPT: family %d, length %d", addr.Addr.Family, *addrLen)
	}

	queue(t, r, 2, func(s *uring.SQE) { s.PrepAcceptMultishot(l, unix.SOCK_CLOEXEC) })
	for range 3 {
		defer unix.Close(dial())
	}
	for _, c := range reapList(t, r, 3) {
		if c.Err() != nil || !c.More() {
			t.Fatalf("multishot ACCEPT: %v, flags %#x", c.Err(), c.Flags)
		}
		unix.Close(int(c.Res))
	}
	wantCounts(t, r, uring.Counts{InKernel: 1})
	queue(t, r, 3, func(s *uring.SQE) { s.PrepCancel(2, 0) })
	cs := reapN(t, r, 2)
	wantRes(t, "cancelled ACCEPT", cs[2], errno(unix.ECANCELED))
	wantRes(t, "ASYNC_CANCEL", cs[3], 0)
}

func wantCounts(t testing.TB, r uring.Queue, want uring.Counts) {
	t.Helper()
	if got := r.Counts(); got != want {
		t.Errorf("counts %+v, want %+v", got, want)
	}
}

// multishot receives are read with both ways to provide buffers.
func TestRecvMultishotProvideBuffers(t *testing.T) {
	r := newRing(t, uring.Config{})
	a, b := socketpair(t, unix.SOCK_SEQPACKET)
	pool := make([]byte, 4*128)
	wantRes(t, "PROVIDE_BUFFERS", do(t, r, func(s *uring.SQE) { s.PrepProvideBuffers(pool, 128, 4, 1, 0) }), 0)
	queue(t, r, 1, func(s *uring.SQE) { s.PrepRecvMultishot(b, 0, 1) })
	for i := range 5 {
		unix.Write(a, pattern(100+i))
	}
	cs := reapList(t, r, 5)
	for i, c := range cs[:4] {
		bid, ok := c.Buffer()
		if int(c.Res) != 100+i || !ok || !c.More() {
			t.Fatalf("message %d: %+v", i, c)
		}
		if !bytes.Equal(pool[int(bid)*128:][:c.Res], pattern(100+i)) {
			t.Errorf("message %d: other bytes", i)
		}
	}
	wantRes(t, "RECV without buffers", cs[4], errno(unix.ENOBUFS))
	if cs[4].More() {
		t.Error("RECV goes on without buffers")
	}
}

func TestRecvMultishotBufRing(t *testing.T) {
	r := newRing(t, uring.Config{})
	br, err := r.NewBufRing(3, 4, 100)
	if err != nil {
		t.Skip(err)
	}
	defer br.Close()
	a, b := socketpair(t, unix.SOCK_SEQPACKET)
	queue(t, r, 1, func(s *uring.SQE) { s.PrepRecvMultishot(b, 0, br.Group()) })
	for i := range 40 { // ten times round the ring
		data := pattern(1 + i)
		unix.Write(a, data)
		c := reapList(t, r, 1)[0]
		got, bid, ok := br.Take(c)
		if !ok || !c.More() || !bytes.Equal(got, data) {
			t.Fatalf("message %d: %+v", i, c)
		}
		if br.Held() != 1 {
			t.Errorf("%d buffers held, want 1", br.Held())
		}
		br.Return(bid)
		br.Publish()
	}
	for range 5 {
		unix.Write(a, []byte{1})
	}
	cs := reapList(t, r, 5)
	wantRes(t, "RECV without buffers", cs[4], errno(unix.ENOBUFS))
	for _, c := range cs[:4] {
		if _, _, ok := br.Take(c); !ok {
			t.Fatalf("no buffer in %+v", c)
		}
	}
	if _, _, ok := br.Take(cs[4]); ok || br.Held() != 4 {
		t.Errorf("%d buffers held, want 4", br.Held())
	}
	br.Return(2)
	wantPanic(t, "a buffer returned twice", func() { br.Return(2) })
	br.Publish()
	queue(t, r, 2, func(s *uring.SQE) { s.PrepRecvSelect(b, 0, br.Group()) })
	c := reapN(t, r, 1)[2]
	wantRes(t, "RECV of one shot", c, 1)
	if _, bid, _ := br.Take(c); bid != 2 {
		t.Errorf("RECV took buffer %d, want 2", bid)
	}
	wantPanic(t, "a buffer taken twice", func() { br.Take(c) })
}

func wantPanic(t testing.TB, what string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s does not panic", what)
		}
	}()
	f()
}

func TestBufRingLimits(t *testing.T) {
	r := newRing(t, uring.Config{})
	for _, c := range []struct{ n, size int }{{0, 1}, {3, 1}, {65536, 1}, {1, 0}, {1, 1 << 30}} {
		if _, err := r.NewBufRing(0, c.n, c.size); err == nil {
			t.Errorf("NewBufRing(%d, %d) is no error", c.n, c.size)
		}
	}
}

func TestRecvmsgMultishot(t *testing.T) {
	r := newRing(t, uring.Config{})
	br, err := r.NewBufRing(3, 4, 256)
	if err != nil {
		t.Skip(err)
	}
	defer br.Close()
	server := udpSocket(t)
	client := udpSocket(t)
	sa, _ := unix.Getsockname(server)
	msg := &unix.Msghdr{Namelen: unix.SizeofSockaddrInet4}
	queue(t, r, 1, func(s *uring.SQE) { s.PrepRecvmsgMultishot(server, msg, 0, 3) })
	for _, n := range []int{10, 100, 0} {
		if err := unix.Sendto(client, pattern(n), 0, sa); err != nil {
			t.Fatal(err)
		}
		c := reapList(t, r, 1)[0]
		buf, bid, ok := br.Take(c)
		out, parsed := uring.ParseRecvmsgOut(buf, msg)
		if !ok || !parsed || !bytes.Equal(out.Payload, pattern(n)) || len(out.Name) != unix.SizeofSockaddrInet4 {
			t.Fatalf("datagram of %d: %v %v %+v", n, ok, parsed, out)
		}
		if c.More() != (n > 0) {
			t.Errorf("datagram of %d: flags %#x", n, c.Flags)
		}
		br.Return(bid)
		br.Publish()
	}
	if _, ok := uring.ParseRecvmsgOut(make([]byte, 20), msg); ok {
		t.Error("a buffer without room for the address was parsed")
	}
}

func udpSocket(t *testing.T) int {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}
