package rpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/rpc/xdr"
)

// bgPayload is a payload that a goroutine sends, after a while.
type bgPayload struct {
	bytesPayload
	hold     chan struct{} // nil, or what the goroutine waits for
	refuse   bool
	released *atomic.Int64
}

func (p *bgPayload) Release() { p.released.Add(1) }

func (p *bgPayload) Room() bool { return len(p.data)%2 == 0 }

func (p *bgPayload) Pad(n int) { p.data = append(p.data, make([]byte, n)...) }

func (p *bgPayload) Start(sock int, head []byte, more bool, done Sent) bool {
	if p.refuse {
		return false
	}
	go func() {
		if p.hold != nil {
			<-p.hold
		}
		err := sendWhole(sock, head)
		if err == nil {
			err = sendWhole(sock, p.data)
		}
		if err == nil {
			p.data = nil
		}
		done.Sent(err)
	}()
	return true
}

func sendWhole(sock int, b []byte) error {
	for len(b) > 0 {
		n, err := Send(sock, b, false)
		b = b[n:]
		if err == unix.EAGAIN {
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(sock), Events: unix.POLLOUT}}, 100)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// backgroundServer answers procedure 1 with as many bytes as asked for, in the
// background, but every refuse-th payload refuses; procedure 2 with the word asked
// for.
func backgroundServer(t *testing.T, hold chan struct{}, refuse int) (s *Server, addr string, made, released *atomic.Int64) {
	made, released = new(atomic.Int64), new(atomic.Int64)
	s, addr = startTestServer(t, Config{Threads: 2, MaxConns: 20, Programs: []Program{{Number: 77, Name: "test", Versions: []Version{{Number: 1, Procs: []Procedure{
		0: {Name: "NULL", Handle: Null},
		1: {Name: "SEND", Handle: func(c *Call) Result {
			n := c.Args.Uint32()
			c.Reply = xdr.AppendUint32(c.Reply, n)
			i := made.Add(1)
			c.Payload = &bgPayload{bytesPayload: bytesPayload{bytes.Repeat([]byte{byte(n)}, int(n))}, hold: hold,
				refuse: refuse > 0 && i%int64(refuse) == 0, released: released}
			return Done
		}, MaxReply: 4},
		2: {Name: "ECHO", Handle: func(c *Call) Result { c.Reply = xdr.AppendUint32(c.Reply, c.Args.Uint32()); return Done }, MaxReply: 4},
	}}}}}})
	return s, addr, made, released
}

// Replies whose payloads leave in the background are whole, padded, and in order
// with what is sent around them, also where a payload refuses.
func TestBackgroundOrder(t *testing.T) {
	_, addr, made, released := backgroundServer(t, nil, 5)
	c := dialTest(t, addr)
	rnd := rand.New(rand.NewPCG(1, 2))
	const calls = 300
	var batch []byte
	var procs, sizes []uint32
	for i := range uint32(calls) {
		proc, n := uint32(1+rnd.IntN(2)), uint32(1+rnd.IntN(20_000))
		procs, sizes = append(procs, proc), append(sizes, n)
		batch = append(batch, fragments(callRecord(i, proc, binary.BigEndian.AppendUint32(nil, n)))...)
	}
	go func() { _, _ = c.Write(batch) }()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	for i := range uint32(calls) {
		b := readRecord(t, c)
		if xid := binary.BigEndian.Uint32(b); xid != i {
			t.Fatalf("reply %d is the one to call %d", i, xid)
		}
		n := int(sizes[i])
		b = b[24:]
		if procs[i] == 2 {
			if len(b) != 4 || int(binary.BigEndian.Uint32(b)) != n {
				t.Fatalf("reply %d: % x", i, b)
			}
			continue
		}
		want := append(bytes.Repeat([]byte{byte(n)}, n), make([]byte, -n&3)...)
		if int(binary.BigEndian.Uint32(b)) != n || !bytes.Equal(b[4:], want) {
			t.Fatalf("reply %d: %d bytes of %d, or others", i, len(b)-4, n)
		}
	}
	eventually(t, "all payloads are released", func() bool { return made.Load() == released.Load() })
}

// A connection that ends while something leaves in the background keeps its
// descriptor until that is over: another connection must not get it, and the bytes.
func TestBackgroundClose(t *testing.T) {
	hold := make(chan struct{})
	s, addr, made, released := backgroundServer(t, hold, 0)
	c := dialTest(t, addr)
	_, err := c.Write(fragments(callRecord(1, 1, binary.BigEndian.AppendUint32(nil, 5000))))
	must(t, err)
	eventually(t, "the call is run", func() bool { return made.Load() == 1 })
	var fd int
	s.conns.each(func(c *Conn) { fd = c.fd })
	must(t, c.(*net.TCPConn).SetLinger(0)) // so that closing resets
	c.Close()
	eventually(t, "the connection is closed", func() bool {
		closed := false
		s.conns.each(func(c *Conn) { c.mu.Lock(); closed = c.closed; c.mu.Unlock() })
		return closed
	})
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || s.conns.len() != 1 || released.Load() != 0 {
		t.Errorf("the descriptor: %v; %d connections, %d released", err, s.conns.len(), released.Load())
	}
	close(hold)
	eventually(t, "the connection is gone", func() bool { return s.conns.len() == 0 && released.Load() == 1 })
}

// A server that is told to stop waits for what leaves in the background, even if
// its time is up, and then has no connection left.
func TestBackgroundShutdown(t *testing.T) {
	hold := make(chan struct{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var made, released atomic.Int64
	s, err := NewServer(Config{Threads: 1, MaxConns: 2, Programs: []Program{{Number: 77, Name: "test", Versions: []Version{{Number: 1, Procs: []Procedure{
		0: {Name: "NULL", Handle: Null},
		1: {Name: "SEND", Handle: func(c *Call) Result {
			made.Add(1)
			c.Payload = &bgPayload{bytesPayload: bytesPayload{make([]byte, 100)}, hold: hold, released: &released}
			return Done
		}},
	}}}}}})
	must(t, err)
	must(t, s.Listen(l.(*net.TCPListener)))
	must(t, s.Start())
	c := dialTest(t, l.Addr().String())
	_, err = c.Write(fragments(callRecord(1, 1, nil)))
	must(t, err)
	eventually(t, "the call is run", func() bool { return made.Load() == 1 })
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	ended := make(chan error)
	go func() { ended <- s.Shutdown(ctx) }()
	select {
	case <-ended:
		t.Error("it did not wait")
	case <-time.After(300 * time.Millisecond):
	}
	close(hold)
	if err := <-ended; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("shutdown: %v", err)
	}
	if s.conns.len() != 0 || released.Load() != 1 {
		t.Errorf("%d connections, %d released", s.conns.len(), released.Load())
	}
}

// A connection that is never without parked output does not keep what has left.
func TestParkedCompacts(t *testing.T) {
	sock, peer := socketPair(t)
	var p parked
	var sent, got int
	next := byte(0)
	add := func() {
		p.add(bytes.Repeat([]byte{next}, 1000))
		next++
		sent += 1000
	}
	for range 50 {
		add()
	}
	expect, within := byte(0), 0
	for range 2000 {
		must(t, p.flush(sock, nil))
		for _, b := range drain(peer, 1000) {
			if b != expect {
				t.Fatalf("byte %d is %d, want %d", got, b, expect)
			}
			if within++; within == 1000 {
				within = 0
				expect++
			}
			got++
		}
		add()
		if p.empty() {
			t.Fatal("the test has to keep something parked")
		}
	}
	if cap(p.buf) > 1<<20 || cap(p.segs) > 4*compactSegments {
		t.Errorf("%d bytes, %d segments kept of %d bytes sent", cap(p.buf), cap(p.segs), sent)
	}
}

// Where the socket is full, one payload is all that is parked; behind one that
// leaves in the background there is room for more if it says so, up to maxParked.
func TestParkedFull(t *testing.T) {
	payload := func(n int) *bgPayload {
		return &bgPayload{bytesPayload: bytesPayload{make([]byte, n)}, released: new(atomic.Int64)}
	}
	var p parked
	p.add(make([]byte, maxParked-1))
	if p.full() {
		t.Error("full with less than maxParked")
	}
	p.add([]byte{0})
	if !p.full() {
		t.Error("not full with maxParked")
	}
	p = parked{}
	p.addPayload(payload(1<<20), 0)
	if !p.full() {
		t.Error("not full with a payload")
	}
	p.away, p.room = 1<<20, true
	if p.full() {
		t.Error("full though the payload leaves")
	}
	p.addPayload(payload(maxParked-4), 0)
	if p.full() {
		t.Error("full with less than maxParked behind it")
	}
	p.addPayload(payload(4), 0)
	if !p.full() {
		t.Error("not full with maxParked behind it")
	}
	p.landed()
	if p.bytes != maxParked || p.payloads != 2 || !p.full() {
		t.Errorf("%d bytes, %d payloads left; full: %v", p.bytes, p.payloads, p.full())
	}
}
