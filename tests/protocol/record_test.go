package protocol

import (
	"bytes"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"sluice/tests/protocol/wire"
)

// expectReply reads the next reply, which must be a success with this xid.
func expectReply(t *testing.T, c *wire.Conn, xid uint32) {
	t.Helper()
	r := value(wire.ParseReply(value(c.Receive())(t)))(t)
	if r.XID != xid || r.Denied || r.Stat != wire.Success {
		t.Fatalf("got %+v, want success for xid %d", r, xid)
	}
}

// expectClosed checks that the server has closed the connection without a reply.
func expectClosed(t *testing.T, c *wire.Conn) {
	t.Helper()
	if rec, err := c.Receive(); err == nil {
		t.Fatalf("got the record % x, want the connection closed", rec)
	} else if !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("got %v, want the connection closed", err)
	}
}

// Row "several fragments, zero-length fragment" (RFC 5531 section 11).
func TestFragments(t *testing.T) {
	s := sharedServer(t)
	rec := sampleCall(t, s, 77)
	frag := wire.Fragment
	for _, row := range []struct {
		name string
		send []byte
	}{
		{"one", wire.Mark(rec)},
		{"two", cat(frag(rec[:10], false), frag(rec[10:], true))},
		{"cut inside every field", split(rec, 3)},
		{"a byte each", split(rec, 1)},
		{"empty first", cat(frag(nil, false), frag(rec, true))},
		{"empty last", cat(frag(rec, false), frag(nil, true))},
		{"empty ones between", cat(frag(rec[:4], false), frag(nil, false), frag(nil, false), frag(rec[4:], true))},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := value(wire.Dial(s.addr))(t)
			defer c.Close()
			must(t, c.Send(row.send))
			expectReply(t, c, 77)
		})
	}
}

// sampleCall is a GETATTR of an export's root.
func sampleCall(t testing.TB, s *server, xid uint32) []byte {
	t.Helper()
	c := dial(t, s)
	call := wire.NewCall(wire.NFS, 3, wire.Getattr, fhArgs(c.mount(treePath("pub"))))
	call.XID = xid
	return call.Record()
}

func cat(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// split puts a record into fragments of n bytes.
func split(rec []byte, n int) (out []byte) {
	for len(rec) > n {
		out = append(out, wire.Fragment(rec[:n], false)...)
		rec = rec[n:]
	}
	return append(out, wire.Fragment(rec, true)...)
}

// Row "header split over segments": a call that arrives byte by byte is a call.
func TestByteAtATime(t *testing.T) {
	s := sharedServer(t)
	c := value(wire.Dial(s.addr))(t)
	defer c.Close()
	must(t, c.SetNoDelay(true))
	for i, b := range split(sampleCall(t, s, 5), 20) {
		must(t, c.Send([]byte{b}))
		if i < 40 {
			time.Sleep(time.Millisecond) // a segment of its own
		}
	}
	expectReply(t, c, 5)
}

// Every place where a call can be cut in two segments.
func TestSplitAtEveryByte(t *testing.T) {
	s := sharedServer(t)
	c := value(wire.Dial(s.addr))(t)
	defer c.Close()
	msg := wire.Mark(sampleCall(t, s, 9))
	for n := 1; n < len(msg); n++ {
		must(t, c.Send(msg[:n]))
		time.Sleep(200 * time.Microsecond)
		must(t, c.Send(msg[n:]))
		expectReply(t, c, 9)
	}
}

// Row "pipelined calls": all are answered, each once.
func TestPipelined(t *testing.T) {
	s := sharedServer(t)
	c := value(wire.Dial(s.addr))(t)
	defer c.Close()
	const calls = 3000
	go func() {
		var b []byte
		rec := sampleCall(t, s, 0)
		for i := range uint32(calls) {
			copy(rec, wire.Enc(nil).U32(i))
			b = append(b, wire.Mark(rec)...)
		}
		_ = c.Send(b) // a failure shows in the replies
	}()
	seen := make(map[uint32]int)
	for range calls {
		r := value(wire.ParseReply(value(c.Receive())(t)))(t)
		seen[r.XID]++
		if r.Denied || r.Stat != wire.Success {
			t.Fatalf("got %+v", r)
		}
	}
	if len(seen) != calls {
		t.Errorf("%d different replies to %d calls", len(seen), calls)
	}
}

// Row "cap the record's total size" and "oversized record": the connection is
// closed, whether one fragment says so or many add up to it.
func TestOversizedRecord(t *testing.T) {
	s := sharedServer(t)
	many := bytes.Repeat(wire.Fragment(make([]byte, 32<<10), false), 64) // 2 MiB and no end
	for name, send := range map[string][]byte{
		"one mark of 2^31-1": {0xff, 0xff, 0xff, 0xff},
		"one mark of 16 MiB": {0x81, 0, 0, 0},
		"many fragments":     many,
		"only empty ones":    bytes.Repeat([]byte{0, 0, 0, 0}, 1<<18),
	} {
		t.Run(name, func(t *testing.T) {
			c := value(wire.Dial(s.addr))(t)
			defer c.Close()
			if err := c.Send(send); err != nil && !closedByPeer(err) {
				t.Fatal(err)
			}
			expectClosed(t, c)
		})
	}
}

func closedByPeer(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, net.ErrClosed)
}

// The longest call that a client may make of a server whose wtmax is 64 KiB is
// taken.
func TestLongestRecord(t *testing.T) {
	s := sharedServer(t)
	c := dial(t, s)
	fh := c.find(c.mount(treePath("pub")), "hello")
	d := c.nfs(wire.Write, fhArgs(fh).U64(0).U32(64<<10, 0).Opaque(make([]byte, 64<<10)))
	if status := d.U32(); status != wire.ErrRofs {
		t.Errorf("WRITE of 64 KiB: status %d, want NFS3ERR_ROFS", status)
	}
}

// Row "record under 24 bytes": the connection is closed.
func TestShortRecord(t *testing.T) {
	s := sharedServer(t)
	rec := sampleCall(t, s, 1)
	for _, n := range []int{0, 4, 20, 23} {
		c := value(wire.Dial(s.addr))(t)
		must(t, c.Send(wire.Mark(rec[:n])))
		expectClosed(t, c)
		c.Close()
	}
}

// Row "message type REPLY": dropped; the next call is answered.
func TestReplyType(t *testing.T) {
	s := sharedServer(t)
	for _, typ := range []byte{1, 2} {
		reply, call := sampleCall(t, s, 1), sampleCall(t, s, 2)
		reply[7] = typ
		c := value(wire.Dial(s.addr))(t)
		must(t, c.Send(cat(wire.Mark(reply), wire.Mark(call))))
		expectReply(t, c, 2)
		c.Close()
	}
}

// A client that ends its side after its calls still gets the replies.
func TestHalfClose(t *testing.T) {
	s := sharedServer(t)
	c := value(wire.Dial(s.addr))(t)
	defer c.Close()
	rec := sampleCall(t, s, 1)
	must(t, c.Send(cat(wire.Mark(rec), wire.Mark(rec))))
	must(t, c.CloseWrite())
	expectReply(t, c, 1)
	expectReply(t, c, 1)
	expectClosed(t, c)
}
