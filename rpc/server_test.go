package rpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/rpc/xdr"
)

// testProgram shows every result that a handler can have.
func testProgram() Program {
	return Program{Number: 77, Name: "test", UDP: true, Versions: []Version{{Number: 1, Procs: []Procedure{
		0: {Name: "NULL", Handle: Null},
		1: {Name: "GARBAGE", Handle: func(c *Call) Result { c.Reply = append(c.Reply, "junk"...); return GarbageArgs }, MaxReply: 4},
		2: {Name: "BROKEN", Handle: func(*Call) Result { return SystemErr }},
		3: {Name: "WAIT", Handle: func(c *Call) Result { // says how it runs
			if !c.MayBlock {
				return Wait
			}
			c.Reply = xdr.AppendUint32(c.Reply, uint32(c.Attempt))
			return Done
		}, MaxReply: 4},
		4: {Name: "AGAIN", Handle: func(c *Call) Result {
			switch {
			case c.MayBlock:
				return Again
			case c.Attempt < 3:
				return Wait
			}
			c.Reply = xdr.AppendUint32(c.Reply, uint32(c.Attempt))
			return Done
		}, MaxReply: 4},
		5: {Name: "PAYLOAD", Handle: func(c *Call) Result {
			n := min(c.Args.Uint32(), 1<<20)
			c.Reply = xdr.AppendUint32(c.Reply, n)
			c.Payload = &bytesPayload{bytes.Repeat([]byte{'p'}, int(n))}
			return Done
		}, MaxReply: 4},
		6: {Name: "PEER", Handle: func(c *Call) Result {
			c.Reply = xdr.AppendString(c.Reply, c.Peer.String())
			return Done
		}, MaxReply: 64},
	}}}}
}

// bytesPayload is a payload in memory.
type bytesPayload struct{ data []byte }

func (p *bytesPayload) Len() int { return len(p.data) }
func (p *bytesPayload) SendTo(sock int, more bool) (int, error) {
	n, err := Send(sock, p.data, more)
	p.data = p.data[n:]
	return n, err
}
func (p *bytesPayload) Release() {}

// startTestServer serves on loopback over TCP and UDP until the test ends.
func startTestServer(t testing.TB, cfg Config) (*Server, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	u, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(l.Addr().(*net.TCPAddr).AddrPort()))
	must(t, err)
	s, err := NewServer(cfg)
	must(t, err)
	addr := l.Addr().String()
	must(t, s.Listen(l.(*net.TCPListener)))
	s.ListenPacket(u)
	must(t, s.Start())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
	})
	return s, addr
}

// callRecord is an AUTH_NONE call of program 77 version 1.
func callRecord(xid, proc uint32, args []byte) []byte {
	var b []byte
	for _, v := range []uint32{xid, msgCall, rpcVersion, 77, 1, proc, 0, 0, 0, 0} {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return append(b, args...)
}

// exchange sends a record and returns the next one.
func exchange(t *testing.T, c net.Conn, rec []byte) []byte {
	t.Helper()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := c.Write(fragments(rec)); err != nil {
		t.Fatal(err)
	}
	return readRecord(t, c)
}

func readRecord(t *testing.T, c net.Conn) []byte {
	t.Helper()
	var mark [4]byte
	if _, err := io.ReadFull(c, mark[:]); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, binary.BigEndian.Uint32(mark[:])&0x7fffffff)
	if _, err := io.ReadFull(c, b); err != nil {
		t.Fatal(err)
	}
	return b
}

func dialTest(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// What a handler decides is what the client sees; nothing of a result that was
// given up is left in the reply.
func TestHandlerResults(t *testing.T) {
	_, addr := startTestServer(t, Config{Programs: []Program{testProgram()}, Threads: 2, MaxConns: 10})
	c := dialTest(t, addr)
	for _, row := range []struct {
		name string
		proc uint32
		stat uint32
		body []byte
	}{
		{"Done", 0, acceptSuccess, nil},
		{"GarbageArgs", 1, acceptGarbageArgs, nil},
		{"SystemErr", 2, acceptSystemErr, nil},
		{"Wait", 3, acceptSuccess, []byte{0, 0, 0, 1}},
		{"Again", 4, acceptSuccess, []byte{0, 0, 0, 3}},
		{"no such procedure", 99, acceptProcUnavail, nil},
	} {
		want := append(appendAccepted(nil, 5, row.stat), row.body...)
		if got := exchange(t, c, callRecord(5, row.proc, nil)); !bytes.Equal(got, want) {
			t.Errorf("%s over TCP: % x, want % x", row.name, got, want)
		}
	}
}

// A payload follows the results with its padding, whatever its length, and
// between other replies.
func TestPayloadPadding(t *testing.T) {
	_, addr := startTestServer(t, Config{Programs: []Program{testProgram()}, Threads: 1, MaxConns: 10})
	c := dialTest(t, addr)
	c.SetDeadline(time.Now().Add(20 * time.Second))
	var send []byte
	sizes := []uint32{1, 2, 3, 4, 5, 100_001, 1 << 20, 7}
	for i, n := range sizes {
		send = append(send, fragments(callRecord(uint32(2*i), 5, xdr.AppendUint32(nil, n)))...)
		send = append(send, fragments(callRecord(uint32(2*i+1), 0, nil))...)
	}
	go c.Write(send)
	for i, n := range sizes {
		want := xdr.AppendUint32(appendAccepted(nil, uint32(2*i), acceptSuccess), n)
		want = xdr.AppendPad(append(want, bytes.Repeat([]byte{'p'}, int(n))...), int(n))
		if got := readRecord(t, c); !bytes.Equal(got, want) {
			t.Fatalf("payload of %d bytes: a record of %d, want %d, or not the same", n, len(got), len(want))
		}
		if got := readRecord(t, c); !bytes.Equal(got, appendAccepted(nil, uint32(2*i+1), acceptSuccess)) {
			t.Fatalf("the reply behind a payload of %d bytes: % x", n, got)
		}
	}
}

// Over UDP a call waits on a waiting thread and is answered from there; what is
// too short is not answered.
func TestDatagrams(t *testing.T) {
	_, addr := startTestServer(t, Config{Programs: []Program{testProgram()}, Threads: 1, MaxConns: 10})
	c, err := net.Dial("udp", addr)
	must(t, err)
	defer c.Close()
	c.SetDeadline(time.Now().Add(5 * time.Second))
	for _, short := range []int{0, 1, 23} {
		_, err := c.Write(make([]byte, short))
		must(t, err)
	}
	_, err = c.Write(callRecord(9, 6, nil))
	must(t, err)
	buf := make([]byte, 1000)
	n, err := c.Read(buf)
	must(t, err)
	if want := xdr.AppendString(appendAccepted(nil, 9, acceptSuccess), c.LocalAddr().String()); !bytes.Equal(buf[:n], want) {
		t.Errorf("% x, want % x", buf[:n], want)
	}
}

// Beyond MaxConns a connection is closed at once and counted; when another ends
// there is room again.
func TestMaxConns(t *testing.T) {
	s, addr := startTestServer(t, Config{Programs: []Program{testProgram()}, Threads: 2, MaxConns: 2})
	a, b := dialTest(t, addr), dialTest(t, addr)
	exchange(t, a, callRecord(1, 0, nil))
	exchange(t, b, callRecord(1, 0, nil))
	over := dialTest(t, addr)
	over.SetDeadline(time.Now().Add(5 * time.Second))
	if n, err := over.Read(make([]byte, 1)); err == nil {
		t.Fatalf("a third connection of two gets %d bytes", n)
	}
	if st := s.Stats(); st.Refused != 1 || st.Connections != 2 {
		t.Errorf("%d refused, %d open; want 1 and 2", st.Refused, st.Connections)
	}
	a.Close()
	eventually(t, "room again", func() bool { return s.Stats().Connections == 1 })
	exchange(t, dialTest(t, addr), callRecord(1, 0, nil))
	if st := s.Stats(); st.Calls["test/1/NULL"] != 3 {
		t.Errorf("%d calls counted, want 3", st.Calls["test/1/NULL"])
	}
}

// A table whose worst case does not fit the batch is refused at start.
func TestTableChecksReplies(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a reply longer than the batch is accepted")
		}
	}()
	newTable([]Program{{Number: 1, Versions: []Version{{Number: 1, Procs: []Procedure{{Name: "BIG", Handle: Null, MaxReply: outBuffer}}}}}})
}

func TestConfigErrors(t *testing.T) {
	for _, cfg := range []Config{{}, {Programs: []Program{testProgram()}}, {Programs: []Program{testProgram()}, Threads: 1}, {Threads: 1, MaxConns: 1}} {
		if _, err := NewServer(cfg); err == nil {
			t.Errorf("%+v is accepted", cfg)
		}
	}
}

func TestAddrPort(t *testing.T) {
	mapped := &unix.SockaddrInet6{Port: 700, Addr: netip.MustParseAddr("::ffff:192.0.2.1").As16()}
	for _, row := range []struct {
		sa   unix.Sockaddr
		want string
	}{
		{&unix.SockaddrInet4{Port: 2049, Addr: [4]byte{192, 0, 2, 9}}, "192.0.2.9:2049"},
		{mapped, "192.0.2.1:700"},
		{&unix.SockaddrInet6{Port: 1, Addr: netip.MustParseAddr("2001:db8::1").As16()}, "[2001:db8::1]:1"},
	} {
		if got := addrPort(row.sa).String(); got != row.want {
			t.Errorf("%v, want %v", got, row.want)
		}
	}
}
