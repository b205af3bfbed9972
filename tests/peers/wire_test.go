package peers

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"sluice/tests/guest"
)

// A client for raw RPC calls with an XDR codec of its own, so that a mistake
// in the server's codec is not repeated here.

const (
	progPortmap = 100000
	progNFS     = 100003
	progMount   = 100005

	callLimit = 5 * time.Second
)

// enc builds XDR; its methods return the receiver for chaining.
type enc struct{ b []byte }

func (e *enc) u32(v ...uint32) *enc {
	for _, x := range v {
		e.b = binary.BigEndian.AppendUint32(e.b, x)
	}
	return e
}

func (e *enc) u64(v ...uint64) *enc {
	for _, x := range v {
		e.b = binary.BigEndian.AppendUint64(e.b, x)
	}
	return e
}

// opaque adds variable-length bytes with their length and padding.
func (e *enc) opaque(p []byte) *enc {
	e.u32(uint32(len(p)))
	e.b = append(e.b, p...)
	for len(e.b)%4 != 0 {
		e.b = append(e.b, 0)
	}
	return e
}

func (e *enc) str(s string) *enc { return e.opaque([]byte(s)) }

var errShort = errors.New("the reply ends early")

// dec takes XDR apart; after the first error all results are zero.
type dec struct {
	b   []byte
	err error
}

func (d *dec) take(n int) []byte {
	if d.err != nil || n > len(d.b) {
		if d.err == nil {
			d.err = errShort
		}
		return nil
	}
	p := d.b[:n]
	d.b = d.b[n:]
	return p
}

func (d *dec) u32() uint32 {
	if p := d.take(4); p != nil {
		return binary.BigEndian.Uint32(p)
	}
	return 0
}

func (d *dec) u64() uint64 { return uint64(d.u32())<<32 | uint64(d.u32()) }

func (d *dec) opaque() []byte {
	n := d.u32()
	if n > uint32(len(d.b)) {
		d.take(len(d.b) + 1)
		return nil
	}
	p := d.take(int(n))
	for _, pad := range d.take(-int(n) & 3) {
		if pad != 0 {
			d.err = errors.New("padding that is not zero")
		}
	}
	return p
}

func (d *dec) bool() bool {
	v := d.u32()
	if v > 1 && d.err == nil {
		d.err = fmt.Errorf("boolean of value %d", v)
	}
	return v == 1
}

// end returns the first error, or one for bytes left over.
func (d *dec) end() error {
	if d.err == nil && len(d.b) > 0 {
		d.err = fmt.Errorf("%d bytes too many", len(d.b))
	}
	return d.err
}

// cred is a credential, ready for the wire.
type cred struct {
	flavor uint32
	body   []byte
}

func sys(uid, gid uint32, groups ...uint32) cred {
	e := new(enc).u32(1).str("peers").u32(uid, gid, uint32(len(groups))).u32(groups...)
	return cred{1, e.b}
}

var (
	rootCred = sys(0, 0)
	noCred   = cred{}
)

// rpcReply is a reply's header and, if it was accepted, its results.
type rpcReply struct {
	denied bool
	accept uint32 // accept_stat, or reject_stat if denied
	body   []byte
}

type wireClient struct {
	conn net.Conn
	xid  uint32
}

func dialWire(t *testing.T, ns *guest.Namespace, addr string) *wireClient {
	t.Helper()
	conn, err := ns.Dial("tcp", addr)
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	return &wireClient{conn: conn, xid: 1000}
}

// call makes one call and waits for its reply.
func (c *wireClient) call(prog, vers, proc uint32, cr cred, args []byte) (*rpcReply, error) {
	c.xid++
	e := new(enc).u32(0, c.xid, 0, 2, prog, vers, proc, cr.flavor).opaque(cr.body).u32(0, 0)
	e.b = append(e.b, args...)
	return c.exchange(e.b)
}

// exchange sends a message with room for the record mark in front, and
// returns the reply to it.
func (c *wireClient) exchange(msg []byte) (*rpcReply, error) {
	binary.BigEndian.PutUint32(msg, 1<<31|uint32(len(msg)-4))
	c.conn.SetDeadline(time.Now().Add(callLimit))
	if _, err := c.conn.Write(msg); err != nil {
		return nil, err
	}
	rec, err := c.record()
	if err != nil {
		return nil, err
	}
	return c.parse(rec)
}

// record reads one record, which may come in several fragments.
func (c *wireClient) record() ([]byte, error) {
	var rec []byte
	for {
		var mark [4]byte
		if _, err := io.ReadFull(c.conn, mark[:]); err != nil {
			return nil, err
		}
		m := binary.BigEndian.Uint32(mark[:])
		n := int(m &^ (1 << 31))
		if len(rec)+n > 8<<20 {
			return nil, fmt.Errorf("a record of over %d bytes", len(rec)+n)
		}
		part := make([]byte, n)
		if _, err := io.ReadFull(c.conn, part); err != nil {
			return nil, err
		}
		rec = append(rec, part...)
		if m>>31 == 1 {
			return rec, nil
		}
	}
}

func (c *wireClient) parse(rec []byte) (*rpcReply, error) {
	d := &dec{b: rec}
	if xid := d.u32(); xid != c.xid {
		return nil, fmt.Errorf("reply to %d, not to %d", xid, c.xid)
	}
	if typ := d.u32(); typ != 1 {
		return nil, fmt.Errorf("message type %d is not REPLY", typ)
	}
	r := &rpcReply{denied: d.u32() == 1}
	if !r.denied {
		d.u32() // verifier
		d.opaque()
	}
	r.accept = d.u32()
	r.body = d.b
	return r, d.err
}
