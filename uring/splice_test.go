package uring_test

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/uring"
)

// sizedPipe makes a pipe that holds size bytes.
func sizedPipe(t testing.TB, size, flags int) (r, w int) {
	t.Helper()
	r, w = pipe(t, flags)
	if got, err := unix.FcntlInt(uintptr(w), unix.F_SETPIPE_SZ, size); err != nil || got < size {
		t.Skipf("F_SETPIPE_SZ %d: %d, %v", size, got, err)
	}
	return r, w
}

// pending returns how many bytes wait in a pipe.
func pending(t testing.TB, fd int) int {
	t.Helper()
	n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// readAll reads n bytes from a blocking descriptor in the background.
func readAll(fd, n int) <-chan []byte {
	done := make(chan []byte, 1)
	go func() {
		var got []byte
		buf := make([]byte, 64<<10)
		for len(got) < n {
			m, err := unix.Read(fd, buf[:min(len(buf), n-len(got))])
			if err == unix.EINTR {
				continue
			}
			if err != nil || m == 0 {
				break
			}
			got = append(got, buf[:m]...)
		}
		done <- got
	}()
	return done
}

// sendChain queues file → pipe, header → socket, pipe → socket, with user
// data 1, 2 and 3.
func sendChain(t testing.TB, r uring.Queue, file int, off uint64, n int, header []byte, rd, w, sock int) {
	t.Helper()
	queue(t, r, 1, func(s *uring.SQE) {
		s.PrepSplice(file, off, w, uring.CurrentPosition, n, 0)
		s.Flags |= uring.IOSQE_IO_LINK
	})
	queue(t, r, 2, func(s *uring.SQE) {
		s.PrepSend(sock, header, unix.MSG_MORE|unix.MSG_NOSIGNAL|unix.MSG_WAITALL)
		s.Flags |= uring.IOSQE_IO_LINK
	})
	queue(t, r, 3, func(s *uring.SQE) {
		s.PrepSplice(rd, uring.CurrentPosition, sock, uring.CurrentPosition, n, 0)
	})
}

func TestSpliceChain(t *testing.T) {
	r := newRing(t, uring.Config{})
	const n = 256 << 10
	data := pattern(3 * n)
	f := tempFile(t, data)
	rd, w := sizedPipe(t, n, 0)
	a, b := tcpPair(t, 0)
	header := []byte("header")
	for i := range 3 {
		got := readAll(b, len(header)+n)
		sendChain(t, r, fdOf(f), uint64(i*n), n, header, rd, w, a)
		c := reapN(t, r, 3)
		wantRes(t, "SPLICE file to pipe", c[1], n)
		wantRes(t, "SEND of the header", c[2], int32(len(header)))
		wantRes(t, "SPLICE pipe to socket", c[3], n)
		if !bytes.Equal(<-got, append(header[:len(header):len(header)], data[i*n:][:n]...)) {
			t.Fatalf("part %d: other bytes on the wire", i)
		}
	}
	if n := pending(t, rd); n != 0 {
		t.Errorf("%d bytes left in the pipe", n)
	}
}

// TestSpliceShort: the file ends early, so nothing is sent, and what is in the
// pipe is the caller's to send or to throw away.
func TestSpliceShort(t *testing.T) {
	r := newRing(t, uring.Config{})
	f := tempFile(t, pattern(10000))
	rd, w := sizedPipe(t, 64<<10, 0)
	a, _ := tcpPair(t, 0)
	sendChain(t, r, fdOf(f), 4000, 16000, []byte("header"), rd, w, a)
	c := reapN(t, r, 3)
	wantRes(t, "SPLICE to the end of the file", c[1], 6000)
	wantRes(t, "SEND", c[2], errno(unix.ECANCELED))
	wantRes(t, "SPLICE", c[3], errno(unix.ECANCELED))
	if n := pending(t, rd); n != 6000 {
		t.Errorf("%d bytes in the pipe, want 6000", n)
	}
}

// TestSpliceFullSocket: on a non-blocking socket that fills up, a splice moves
// a part, and the next one nothing, with -EAGAIN; the rest stays in the pipe
// and can be sent later.
func TestSpliceFullSocket(t *testing.T) {
	r := newRing(t, uring.Config{})
	const n = 1 << 20
	data := pattern(n)
	f := tempFile(t, data)
	rd, w := sizedPipe(t, n, 0)
	a, b := tcpPair(t, unix.SOCK_NONBLOCK)
	if err := unix.SetsockoptInt(a, unix.SOL_SOCKET, unix.SO_SNDBUF, 64<<10); err != nil {
		t.Fatal(err)
	}
	if err := unix.SetsockoptInt(b, unix.SOL_SOCKET, unix.SO_RCVBUF, 64<<10); err != nil {
		t.Fatal(err)
	}
	c := do(t, r, func(s *uring.SQE) { s.PrepSplice(fdOf(f), 0, w, uring.CurrentPosition, n, 0) })
	wantRes(t, "SPLICE file to pipe", c, n)
	sent, sawShort := 0, false
	out := func() uring.CQE {
		return do(t, r, func(s *uring.SQE) {
			s.PrepSplice(rd, uring.CurrentPosition, a, uring.CurrentPosition, n-sent, 0)
		})
	}
	for {
		c := out()
		if c.Res == errno(unix.EAGAIN) {
			break
		}
		if c.Res <= 0 {
			t.Fatal("SPLICE to the socket:", c.Res, c.Err())
		}
		sawShort = sawShort || int(c.Res) < n-sent
		sent += int(c.Res)
	}
	if !sawShort || pending(t, rd) != n-sent {
		t.Errorf("short splice seen: %v; %d bytes in the pipe, want %d", sawShort, pending(t, rd), n-sent)
	}
	unix.SetNonblock(b, false)
	got := readAll(b, n)
	for sent < n {
		switch c := out(); {
		case c.Res > 0:
			sent += int(c.Res)
		case c.Res == errno(unix.EAGAIN):
			wantRes(t, "POLL_ADD", do(t, r, func(s *uring.SQE) { s.PrepPollAdd(a, unix.POLLOUT, 0) }), unix.POLLOUT)
		default:
			t.Fatal("SPLICE to the socket:", c.Err())
		}
	}
	if !bytes.Equal(<-got, data) {
		t.Error("other bytes on the wire")
	}
}

func TestSpliceNonblockPipe(t *testing.T) {
	r := newRing(t, uring.Config{})
	rd, _ := pipe(t, 0)
	_, w := pipe(t, 0)
	c := do(t, r, func(s *uring.SQE) {
		s.PrepSplice(rd, uring.CurrentPosition, w, uring.CurrentPosition, 10, unix.SPLICE_F_NONBLOCK)
	})
	wantRes(t, "SPLICE of an empty pipe", c, errno(unix.EAGAIN))
}

func TestSpliceFixed(t *testing.T) {
	r := newRing(t, uring.Config{})
	f := tempFile(t, pattern(100))
	rd, w := pipe(t, 0)
	if err := r.RegisterFiles([]int32{int32(fdOf(f)), int32(w)}); err != nil {
		t.Fatal(err)
	}
	c := do(t, r, func(s *uring.SQE) {
		s.PrepSplice(0, 50, 1, uring.CurrentPosition, 50, uring.SPLICE_F_FD_IN_FIXED)
		s.Flags |= uring.IOSQE_FIXED_FILE
	})
	wantRes(t, "SPLICE between registered files", c, 50)
	if got := <-readAll(rd, 50); !bytes.Equal(got, pattern(100)[50:]) {
		t.Error("other bytes in the pipe")
	}
}

func TestTee(t *testing.T) {
	r := newRing(t, uring.Config{})
	rd, w := pipe(t, 0)
	rd2, w2 := pipe(t, 0)
	unix.Write(w, pattern(1000))
	wantRes(t, "TEE", do(t, r, func(s *uring.SQE) { s.PrepTee(rd, w2, 1000, 0) }), 1000)
	for _, fd := range []int{rd, rd2} {
		if got := <-readAll(fd, 1000); !bytes.Equal(got, pattern(1000)) {
			t.Error("other bytes in a pipe")
		}
	}
}
