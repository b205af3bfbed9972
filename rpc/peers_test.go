package rpc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"
)

// One client cannot have more connections than it may, whatever room there is;
// what it closes it may open again.
func TestMaxConnsPerPeer(t *testing.T) {
	s, addr := startTestServer(t, Config{Programs: []Program{testProgram()}, Threads: 2, MaxConns: 10, MaxConnsPerPeer: 3})
	from := func(ip string) net.Conn {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
		c, err := d.Dial("tcp", addr)
		must(t, err)
		t.Cleanup(func() { c.Close() })
		return c
	}
	var mine []net.Conn
	for range 3 {
		mine = append(mine, from("127.0.0.1"))
		exchange(t, mine[len(mine)-1], callRecord(1, 0, nil))
	}
	expectEnd(t, from("127.0.0.1"))
	exchange(t, from("127.0.0.2"), callRecord(1, 0, nil))
	mine[0].Close()
	for deadline := time.Now().Add(10 * time.Second); s.Stats().Connections > 3 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	exchange(t, from("127.0.0.1"), callRecord(1, 0, nil))
}

// expectEnd checks that the server ends a connection without a word.
func expectEnd(t *testing.T, c net.Conn) {
	t.Helper()
	must(t, c.SetReadDeadline(time.Now().Add(20*time.Second)))
	n, err := c.Read(make([]byte, 1))
	if n != 0 || !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("%d bytes, %v; want the end of the connection", n, err)
	}
}

// An IPv6 client owns a /64 (RFC 4291 section 2.5.4) and counts as one.
func TestPeerKey(t *testing.T) {
	for _, row := range []struct {
		a, b string
		same bool
	}{
		{"192.0.2.1", "192.0.2.1", true}, {"192.0.2.1", "192.0.2.2", false},
		{"2001:db8::1", "2001:db8::ffff:0:0:9", true}, {"2001:db8::1", "2001:db8:0:1::1", false},
		{"fe80::1%eth0", "fe80::2%eth1", true},
	} {
		if same := peerKey(netip.MustParseAddr(row.a)) == peerKey(netip.MustParseAddr(row.b)); same != row.same {
			t.Errorf("%s and %s: one client %v, want %v", row.a, row.b, same, row.same)
		}
	}
}

// A peer that begins a call and does not finish it loses its connection, however
// it trickles; one that is idle, or slow with a call each time, does not.
func TestPeerTimeout(t *testing.T) {
	const limit = 400 * time.Millisecond
	s, addr := startTestServer(t, Config{Programs: []Program{testProgram()}, Threads: 2, MaxConns: 10, PeerTimeout: limit})
	idle, slow, trickle := dialTest(t, addr), dialTest(t, addr), dialTest(t, addr)
	rec := fragments(callRecord(7, 0, nil))
	half := len(rec) / 2
	_, err := slow.Write(rec[:half])
	must(t, err)
	for i := range 32 {
		// A call ends and the next begins, so that there is a part of one all the time.
		_, err := slow.Write(append(append([]byte{}, rec[half:]...), rec[:half]...))
		must(t, err)
		readRecord(t, slow)
		_, _ = trickle.Write(rec[i : i+1])
		time.Sleep(limit / 8)
	}
	expectEnd(t, trickle)
	exchange(t, idle, callRecord(7, 0, nil))
	if n := s.Stats().Stalled; n != 1 {
		t.Errorf("%d connections ended for a call that was not finished, want 1", n)
	}
}

// A server that drains leaves a listener that others share to them: connections
// that it does not take go there at once, however long it drains.
func TestSharedListener(t *testing.T) {
	first, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	addr := first.Addr().String()
	fd, err := dupSocket(first.(*net.TCPListener))
	must(t, err)
	f := os.NewFile(uintptr(fd), "listener")
	l, err := net.FileListener(f)
	must(t, err)
	f.Close()
	old, err := NewServer(Config{Programs: []Program{testProgram()}, Threads: 2, MaxConns: 10})
	must(t, err)
	must(t, old.Listen(first.(*net.TCPListener)))
	must(t, old.Start())
	stuck := dialTest(t, addr)
	must(t, stuck.(*net.TCPConn).SetReadBuffer(4096))
	_, err = stuck.Write(bytes.Repeat(fragments(callRecord(1, 5, []byte{0, 0x0f, 0, 0})), 20)) // 983,040 bytes each
	must(t, err)
	for deadline := time.Now().Add(10 * time.Second); old.Stats().Calls["test/1/PAYLOAD"] == 0 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	next, err := NewServer(Config{Programs: []Program{testProgram()}, Threads: 2, MaxConns: 300})
	must(t, err)
	must(t, next.Listen(l.(*net.TCPListener)))
	must(t, next.Start())
	drained := make(chan error)
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	go func() { drained <- old.Shutdown(ctx) }()
	for !old.draining.Load() {
		time.Sleep(time.Millisecond)
	}
	began := threadTimes(old)
	for range 200 {
		c := dialTest(t, addr)
		exchange(t, c, callRecord(1, 0, nil))
	}
	if n := next.Stats().Accepted; n != 200 {
		t.Errorf("the other server has %d of 200 connections", n)
	}
	if used := threadTimes(old) - began; used > time.Second {
		t.Errorf("the threads of the server that drains used %v meanwhile", used)
	}
	stuck.Close()
	<-drained
	must(t, next.Shutdown(ctx))
}

// threadTimes is the CPU time of a server's threads.
func threadTimes(s *Server) (all time.Duration) {
	for _, th := range s.threads {
		all += threadTime(int(th.tid.Load()))
	}
	return all
}
