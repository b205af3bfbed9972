package exports

import (
	"net"
	"net/netip"
	"sync/atomic"
	"testing"

	"sluice/tests/protocol/wire"
)

// client calls from one address, as one user.
type client struct {
	t    testing.TB
	conn *wire.Conn
	cred wire.Opaque
}

// from connects to the server from an address and a privileged port, as root.
// Server and client have the same address, so that no route is needed.
func (s *server) from(addr string) *client { return s.dial(addr, true) }

var nextPort atomic.Int32

func (s *server) dial(addr string, privileged bool) *client {
	s.t.Helper()
	ip := netip.MustParseAddr(addr)
	to := net.JoinHostPort(addr, s.port)
	if ip.Is4In6() {
		to = net.JoinHostPort(ip.Unmap().String(), s.port)
	}
	var last error
	for range 500 {
		port := 0
		if privileged {
			port = 600 + int(nextPort.Add(1))%400
		}
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: ip.Unmap().AsSlice(), Port: port}, Timeout: wire.Timeout}
		c, err := d.Dial("tcp", to)
		if err != nil {
			last = err // the port is in use, or was a moment ago
			continue
		}
		conn := &wire.Conn{TCPConn: c.(*net.TCPConn)}
		s.t.Cleanup(func() { conn.Close() })
		return &client{s.t, conn, wire.Sys(0, 0)}
	}
	s.t.Fatalf("from %s: %v", addr, last)
	return nil
}

// as is the same connection with another credential.
func (c *client) as(cred wire.Opaque) *client { return &client{c.t, c.conn, cred} }

func (c *client) call(prog, proc uint32, args []byte) *wire.Dec {
	c.t.Helper()
	call := wire.NewCall(prog, 3, proc, args)
	call.Cred = c.cred
	r := value(c.conn.Call(call))(c.t)
	if r.Denied || r.Stat != wire.Success {
		c.t.Fatalf("program %d procedure %d: denied %v, status %d", prog, proc, r.Denied, r.Stat)
	}
	return &wire.Dec{B: r.Results}
}

// mnt is MNT (RFC 1813 section 5.2.1).
func (c *client) mnt(path string) (status uint32, fh []byte) {
	c.t.Helper()
	d := c.call(wire.Mount, 1, wire.Enc(nil).Str(path))
	if status = d.U32(); status == 0 {
		fh = d.FH()
		for range d.U32() {
			d.U32()
		}
	}
	must(c.t, d.End())
	return status, fh
}

// mount is mnt of what can be mounted.
func (c *client) mount(path string) []byte {
	c.t.Helper()
	status, fh := c.mnt(path)
	if status != 0 {
		c.t.Fatalf("MNT %s: status %d", path, status)
	}
	return fh
}

func fhArgs(fh []byte) wire.Enc { return wire.Enc(nil).Opaque(fh) }

func (c *client) getattr(fh []byte) (status uint32, a wire.Attr) {
	c.t.Helper()
	d := c.call(wire.NFS, wire.Getattr, fhArgs(fh))
	if status = d.U32(); status == wire.OK {
		a = d.Attr()
	}
	must(c.t, d.End())
	return status, a
}

func (c *client) lookup(dir []byte, name string) (status uint32, fh []byte, a *wire.Attr) {
	c.t.Helper()
	d := c.call(wire.NFS, wire.Lookup, fhArgs(dir).Str(name))
	if status = d.U32(); status == wire.OK {
		fh, a = d.FH(), d.PostOp()
	}
	d.PostOp()
	must(c.t, d.End())
	return status, fh, a
}

// find goes down from dir by names that must be there.
func (c *client) find(dir []byte, names ...string) []byte {
	c.t.Helper()
	for _, n := range names {
		status, fh, _ := c.lookup(dir, n)
		if status != wire.OK {
			c.t.Fatalf("LOOKUP %s: status %d", n, status)
		}
		dir = fh
	}
	return dir
}

func (c *client) read(fh []byte) (status uint32, data string) {
	c.t.Helper()
	d := c.call(wire.NFS, wire.Read, fhArgs(fh).U64(0).U32(4096))
	if status = d.U32(); status != wire.OK {
		d.PostOp()
		must(c.t, d.End())
		return status, ""
	}
	d.PostOp()
	d.U32()
	d.Bool()
	data = string(d.Opaque(1 << 20))
	must(c.t, d.End())
	return status, data
}

func (c *client) access(fh []byte, asked uint32) uint32 {
	c.t.Helper()
	d := c.call(wire.NFS, wire.Access, fhArgs(fh).U32(asked))
	if st := d.U32(); st != wire.OK {
		c.t.Fatalf("ACCESS: status %d", st)
	}
	d.PostOp()
	bits := d.U32()
	must(c.t, d.End())
	return bits
}

// list is READDIR or READDIRPLUS of a small directory.
func (c *client) list(dir []byte, plus bool) (status uint32, entries map[string]wire.Entry) {
	c.t.Helper()
	args := fhArgs(dir).U64(0).U32(0, 0)
	proc := uint32(wire.Readdir)
	if plus {
		args, proc = args.U32(32768), wire.Readdirplus
	}
	d := c.call(wire.NFS, proc, args.U32(32768))
	status = d.U32()
	d.PostOp()
	if status == wire.OK {
		d.U64() // cookieverf
		list, _ := d.Entries(plus)
		entries = make(map[string]wire.Entry)
		for _, e := range list {
			entries[e.Name] = e
		}
	}
	must(c.t, d.End())
	return status, entries
}

// exportList is EXPORT: paths and client names.
func (c *client) exportList() map[string][]string {
	c.t.Helper()
	d := c.call(wire.Mount, 5, nil)
	list := make(map[string][]string)
	for d.U32() == 1 {
		path := string(d.Opaque(1024))
		list[path] = []string{}
		for d.U32() == 1 {
			list[path] = append(list[path], string(d.Opaque(255)))
		}
	}
	must(c.t, d.End())
	return list
}
