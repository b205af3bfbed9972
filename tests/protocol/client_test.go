package protocol

import (
	"testing"

	"sluice/tests/protocol/wire"
)

// client is a connection with the identity that it calls as. Its methods fail
// the test where a reply is not what the RFC lets it be.
type client struct {
	t    testing.TB
	conn *wire.Conn
	cred wire.Opaque
}

// dial connects as root.
func dial(t testing.TB, s *server) *client {
	t.Helper()
	conn := value(wire.Dial(s.addr))(t)
	t.Cleanup(func() { conn.Close() })
	return &client{t, conn, wire.Sys(0, 0)}
}

// dialPrivileged connects from a port below 1024.
func dialPrivileged(t testing.TB, s *server) *client {
	t.Helper()
	needRoot(t)
	conn := value(wire.DialPrivileged(s.addr))(t)
	t.Cleanup(func() { conn.Close() })
	return &client{t, conn, wire.Sys(0, 0)}
}

// as is the same connection with another credential.
func (c *client) as(cred wire.Opaque) *client { return &client{c.t, c.conn, cred} }

// call returns the results of a call that must succeed as far as RPC goes.
func (c *client) call(prog, vers, proc uint32, args []byte) *wire.Dec {
	c.t.Helper()
	call := wire.NewCall(prog, vers, proc, args)
	call.Cred = c.cred
	r := value(c.conn.Call(call))(c.t)
	if r.Denied || r.Stat != wire.Success {
		c.t.Fatalf("program %d version %d procedure %d: denied %v, status %d", prog, vers, proc, r.Denied, r.Stat)
	}
	return &wire.Dec{B: r.Results}
}

func (c *client) nfs(proc uint32, args []byte) *wire.Dec {
	c.t.Helper()
	return c.call(wire.NFS, 3, proc, args)
}

// end checks that a result was decoded whole.
func (c *client) end(d *wire.Dec) {
	c.t.Helper()
	if err := d.End(); err != nil {
		c.t.Fatalf("result: %v", err)
	}
}

func fhArgs(fh []byte) wire.Enc { return wire.Enc(nil).Opaque(fh) }

// mnt is MNT of version 3 (RFC 1813 section 5.2.1); the handle is nil unless the
// status is 0.
func (c *client) mnt(path string) (status uint32, fh []byte, flavors []uint32) {
	c.t.Helper()
	d := c.call(wire.Mount, 3, 1, wire.Enc(nil).Str(path))
	if status = d.U32(); status == 0 {
		fh = d.FH()
		for range d.U32() {
			flavors = append(flavors, d.U32())
		}
	}
	c.end(d)
	return status, fh, flavors
}

// mount is mnt of a directory that can be mounted.
func (c *client) mount(path string) []byte {
	c.t.Helper()
	status, fh, _ := c.mnt(path)
	if status != 0 {
		c.t.Fatalf("MNT %s: status %d", path, status)
	}
	return fh
}

// getattr is GETATTR (section 3.3.1).
func (c *client) getattr(fh []byte) (status uint32, a wire.Attr) {
	c.t.Helper()
	d := c.nfs(wire.Getattr, fhArgs(fh))
	if status = d.U32(); status == wire.OK {
		a = d.Attr()
	}
	c.end(d)
	return status, a
}

// attrOf is getattr of what is there.
func (c *client) attrOf(fh []byte) wire.Attr {
	c.t.Helper()
	status, a := c.getattr(fh)
	if status != wire.OK {
		c.t.Fatalf("GETATTR: status %d", status)
	}
	return a
}

type lookupResult struct {
	status    uint32
	fh        []byte
	attr, dir *wire.Attr
}

// lookup is LOOKUP (section 3.3.3).
func (c *client) lookup(dir []byte, name string) (r lookupResult) {
	c.t.Helper()
	d := c.nfs(wire.Lookup, fhArgs(dir).Str(name))
	if r.status = d.U32(); r.status == wire.OK {
		r.fh, r.attr = d.FH(), d.PostOp()
	}
	r.dir = d.PostOp()
	c.end(d)
	return r
}

// find returns the handle of what must be there, names going down from dir.
func (c *client) find(dir []byte, names ...string) []byte {
	c.t.Helper()
	for _, name := range names {
		r := c.lookup(dir, name)
		if r.status != wire.OK {
			c.t.Fatalf("LOOKUP %q: status %d", name, r.status)
		}
		dir = r.fh
	}
	return dir
}

// access is ACCESS (section 3.3.4).
func (c *client) access(fh []byte, asked uint32) (status uint32, a *wire.Attr, bits uint32) {
	c.t.Helper()
	d := c.nfs(wire.Access, fhArgs(fh).U32(asked))
	status, a = d.U32(), d.PostOp()
	if status == wire.OK {
		bits = d.U32()
	}
	c.end(d)
	return status, a, bits
}

// readlink is READLINK (section 3.3.5).
func (c *client) readlink(fh []byte) (status uint32, a *wire.Attr, text string) {
	c.t.Helper()
	d := c.nfs(wire.Readlink, fhArgs(fh))
	status, a = d.U32(), d.PostOp()
	if status == wire.OK {
		text = string(d.Opaque(4096))
	}
	c.end(d)
	return status, a, text
}

type readResult struct {
	status uint32
	attr   *wire.Attr
	eof    bool
	data   []byte
}

func readArgs(fh []byte, off uint64, count uint32) wire.Enc { return fhArgs(fh).U64(off).U32(count) }

// read is READ (section 3.3.6).
func (c *client) read(fh []byte, off uint64, count uint32) (r readResult) {
	c.t.Helper()
	return decodeRead(c.t, c.nfs(wire.Read, readArgs(fh, off, count)))
}

func decodeRead(t testing.TB, d *wire.Dec) (r readResult) {
	t.Helper()
	if r.status, r.attr = d.U32(), d.PostOp(); r.status == wire.OK {
		n := d.U32()
		r.eof, r.data = d.Bool(), d.Opaque(8<<20)
		if n != uint32(len(r.data)) {
			t.Fatalf("READ: count %d, %d bytes of data", n, len(r.data))
		}
	}
	must(t, d.End())
	return r
}

type listResult struct {
	status  uint32
	dir     *wire.Attr
	entries []wire.Entry
	eof     bool
	size    int // of the result, its status included
}

// readdir is READDIR (section 3.3.16).
func (c *client) readdir(fh []byte, cookie uint64, count uint32) listResult {
	c.t.Helper()
	args := fhArgs(fh).U64(cookie).U64(0).U32(count)
	return c.decodeList(c.nfs(wire.Readdir, args), false)
}

// readdirplus is READDIRPLUS (section 3.3.17).
func (c *client) readdirplus(fh []byte, cookie uint64, dircount, maxcount uint32) listResult {
	c.t.Helper()
	args := fhArgs(fh).U64(cookie).U64(0).U32(dircount, maxcount)
	return c.decodeList(c.nfs(wire.Readdirplus, args), true)
}

func (c *client) decodeList(d *wire.Dec, plus bool) listResult {
	c.t.Helper()
	r := listResult{size: len(d.B)}
	if r.status, r.dir = d.U32(), d.PostOp(); r.status == wire.OK {
		d.U64() // verifier
		r.entries, r.eof = d.Entries(plus)
	}
	c.end(d)
	return r
}
