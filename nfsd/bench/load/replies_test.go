package load

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	"sluice/nfsd/bench/client"
)

// newTestConn is a connection with one outstanding call, a READ of count bytes; 0
// means another call. Its transaction identifier is 0x401.
func newTestConn(count uint32) *conn {
	th := &thread{run: &run{began: time.Now()}, latency: newHistogram()}
	c := newConn(-1, th, &Options{Depth: 2, MaxCount: 1 << 20})
	c.free = c.free[:1]
	c.slots[1] = slot{next: Next{Count: count, Call: client.Call{}}, xid: 1<<slotBits | 1, busy: true}
	return c
}

// readReply is a READ reply, RFC 1813 section 3.3.6, with or without attributes and
// a verifier.
func readReply(xid uint32, verifier, attrs int, count, length uint32, data []byte) []byte {
	var b []byte
	u := func(v ...uint32) {
		for _, v := range v {
			b = binary.BigEndian.AppendUint32(b, v)
		}
	}
	u(xid, 1, 0, 0, uint32(verifier))
	b = append(b, make([]byte, verifier)...)
	u(0, 0)
	if attrs > 0 {
		u(1)
		b = append(b, make([]byte, attrs)...)
	} else {
		u(0)
	}
	u(count, 1, length)
	return append(b, data...)
}

// record splits a reply into fragments of at most size bytes.
func record(reply []byte, size int) (b []byte) {
	for {
		n := min(size, len(reply))
		mark := uint32(n)
		if n == len(reply) {
			mark |= lastFragment
		}
		b = append(binary.BigEndian.AppendUint32(b, mark), reply[:n]...)
		if reply = reply[n:]; len(reply) == 0 {
			return b
		}
	}
}

const testXID = 1<<slotBits | 1

// However a reply comes, in fragments and pieces of whatever size, the call is
// complete and all its data is handed on.
func TestRepliesInPieces(t *testing.T) {
	data := make([]byte, 1003)
	for i := range data {
		data[i] = byte(i ^ i>>8)
	}
	padded := append(bytes.Clone(data), 0)
	for _, verifier := range []int{0, 4, 400} {
		for _, attrs := range []int{0, fattr3Len} {
			for _, fragment := range []int{1, 7, 128, 1 << 20} {
				for _, piece := range []int{1, 3, 130, 1 << 20} {
					c := newTestConn(uint32(len(data)))
					var got []byte
					c.verify = func(_ int, off uint64, b []byte) error {
						if off != uint64(len(got)) {
							t.Errorf("offset %d, want %d", off, len(got))
						}
						got = append(got, b...)
						return nil
					}
					stream := record(readReply(testXID, verifier, attrs, 1003, 1003, padded), fragment)
					for len(stream) > 0 {
						n := min(piece, len(stream))
						if err := c.replies.feed(stream[:n]); err != nil {
							t.Fatalf("verifier %d, attributes %d, fragments of %d, pieces of %d: %v", verifier, attrs, fragment, piece, err)
						}
						stream = stream[n:]
					}
					if c.outstanding() != 0 || c.thread.calls != 1 || c.thread.bytes != 1003 || !bytes.Equal(got, data) {
						t.Fatalf("verifier %d, attributes %d, fragments of %d, pieces of %d: %d outstanding, %d calls, %d bytes, %d handed on",
							verifier, attrs, fragment, piece, c.outstanding(), c.thread.calls, c.thread.bytes, len(got))
					}
				}
			}
		}
	}
}

// Discarding in the kernel and receiving come to the same.
func TestRepliesDiscard(t *testing.T) {
	c := newTestConn(5000)
	stream := record(readReply(testXID, 0, fattr3Len, 5000, 5000, make([]byte, 5000)), 1<<20)
	if err := c.replies.feed(stream[:smallGulp]); err != nil {
		t.Fatal(err)
	}
	if n := c.replies.discardable(); n != 5000 {
		t.Fatalf("%d bytes to discard, want 5000", n)
	}
	for _, n := range []int{1, 4000, 999} {
		if err := c.replies.discarded(n); err != nil {
			t.Fatal(err)
		}
	}
	if c.outstanding() != 0 || c.replies.discardable() != 0 {
		t.Errorf("%d outstanding, %d to discard", c.outstanding(), c.replies.discardable())
	}
}

func TestRepliesRefused(t *testing.T) {
	whole := func(count, length uint32, data int) []byte {
		return record(readReply(testXID, 0, fattr3Len, count, length, make([]byte, data)), 1<<24)
	}
	status := record(append(readReply(testXID, 0, 0, 0, 0, nil)[:24], 0, 0, 0, 70, 0, 0, 0, 0), 1<<20)
	for name, row := range map[string]struct {
		stream []byte
		want   string
	}{
		"another call's":         {record(readReply(testXID+1, 0, 0, 8, 8, make([]byte, 8)), 1<<20), errGarbled.Error()},
		"an earlier call's":      {record(readReply(1, 0, 0, 8, 8, make([]byte, 8)), 1<<20), errGarbled.Error()},
		"a slot that is not":     {record(readReply(1<<slotBits|99, 0, 0, 8, 8, make([]byte, 8)), 1<<20), errGarbled.Error()},
		"a short read":           {whole(4, 4, 4), "short read"},
		"more than asked":        {whole(16, 16, 16), errTooLong.Error()},
		"count and length":       {whole(8, 4, 4), errGarbled.Error()},
		"less data than it says": {whole(8, 8, 4), errTooShort.Error()},
		"more data than it says": {whole(8, 8, 12), errTooShort.Error()},
		"a head that ends":       {record(readReply(testXID, 0, 0, 8, 8, nil)[:30], 1<<20), errTooShort.Error()},
		"an empty record":        {record(nil, 1), errGarbled.Error()},
		"too long":               {[]byte{0xff, 0xff, 0xff, 0xff}, errTooLong.Error()},
		"a status":               {status, "NFS3ERR_STALE"},
		"a verifier too long":    {record(readReply(testXID, 404, 0, 8, 8, make([]byte, 8)), 1<<20), ""},
	} {
		c := newTestConn(8)
		if err := c.replies.feed(row.stream); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", name, err, row.want)
		}
		if c.thread.calls != 0 {
			t.Errorf("%s: counted as done", name)
		}
	}
}

func TestVerifyStops(t *testing.T) {
	c := newTestConn(8)
	wrong := errors.New("wrong")
	c.verify = func(int, uint64, []byte) error { return wrong }
	err := c.replies.feed(record(readReply(testXID, 0, 0, 8, 8, make([]byte, 8)), 1<<20))
	if !errors.Is(err, wrong) {
		t.Errorf("%v", err)
	}
}

func FuzzReplies(f *testing.F) {
	f.Add(record(readReply(testXID, 0, fattr3Len, 8, 8, make([]byte, 8)), 50), uint8(3))
	f.Add(record(readReply(testXID, 8, 0, 8, 8, make([]byte, 8)), 1<<20), uint8(200))
	f.Fuzz(func(t *testing.T, stream []byte, piece uint8) {
		c := newTestConn(8)
		for len(stream) > 0 {
			n := min(int(piece)+1, len(stream))
			if c.replies.feed(stream[:n]) != nil {
				return
			}
			stream = stream[n:]
		}
		if c.thread.calls > 1 {
			t.Errorf("%d calls of 1", c.thread.calls)
		}
	})
}
