package main

import (
	"fmt"
	"net"

	"sluice/tests/protocol/wire"
)

// client makes calls as root and returns what is wrong as an error.
type client struct {
	conn *wire.Conn
	cred wire.Opaque
}

// status is an NFS status that was not hoped for.
type status uint32

func (s status) Error() string { return fmt.Sprintf("status %d", uint32(s)) }

func dial(addr string) (*client, error) { return dialFrom("", addr) }

// dialFrom connects from an address of this machine.
func dialFrom(from, addr string) (*client, error) {
	d := net.Dialer{Timeout: wire.Timeout}
	if from != "" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
	}
	c, err := d.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &client{&wire.Conn{TCPConn: c.(*net.TCPConn)}, wire.Sys(0, 0)}, nil
}

// dial connects for the time of the trial.
func (t *trial) dial(s *server) *client {
	c := get(dial(s.addr))(t)
	t.after(func() { c.conn.Close() })
	return c
}

func (c *client) call(prog, vers, proc uint32, args []byte) (*wire.Dec, error) {
	call := wire.NewCall(prog, vers, proc, args)
	call.Cred = c.cred
	r, err := c.conn.Call(call)
	if err == nil && (r.Denied || r.Stat != wire.Success) {
		err = fmt.Errorf("program %d procedure %d: denied %v, status %d", prog, proc, r.Denied, r.Stat)
	}
	return &wire.Dec{B: r.Results}, err
}

// nfs makes an NFS call and reads its status.
func (c *client) nfs(proc uint32, args []byte) (*wire.Dec, error) {
	d, err := c.call(wire.NFS, 3, proc, args)
	if err != nil {
		return d, err
	}
	if st := d.U32(); st != wire.OK {
		return d, status(st)
	}
	return d, nil
}

func fhArgs(fh []byte) wire.Enc { return wire.Enc(nil).Opaque(fh) }

func readArgs(fh []byte, off uint64, count uint32) wire.Enc { return fhArgs(fh).U64(off).U32(count) }

func (c *client) mount(path string) ([]byte, error) {
	d, err := c.call(wire.Mount, 3, 1, wire.Enc(nil).Str(path))
	if err != nil {
		return nil, err
	}
	if st := d.U32(); st != 0 {
		return nil, fmt.Errorf("MNT %s: %w", path, status(st))
	}
	return d.FH(), nil
}

func (c *client) lookup(dir []byte, name string) ([]byte, error) {
	d, err := c.nfs(wire.Lookup, fhArgs(dir).Str(name))
	if err != nil {
		return nil, err
	}
	return d.FH(), nil
}

// find mounts a directory and goes down.
func (c *client) find(dir string, names ...string) ([]byte, error) {
	fh, err := c.mount(dir)
	for _, name := range names {
		if err == nil {
			fh, err = c.lookup(fh, name)
		}
	}
	return fh, err
}

func (c *client) getattr(fh []byte) (wire.Attr, error) {
	d, err := c.nfs(wire.Getattr, fhArgs(fh))
	if err != nil {
		return wire.Attr{}, err
	}
	return d.Attr(), d.End()
}

// readReply is a READ3resok.
type readReply struct {
	attr *wire.Attr
	eof  bool
	data []byte
}

func (c *client) read(fh []byte, off uint64, count uint32) (readReply, error) {
	d, err := c.call(wire.NFS, 3, wire.Read, readArgs(fh, off, count))
	if err != nil {
		return readReply{}, err
	}
	return decodeRead(d)
}

func decodeRead(d *wire.Dec) (r readReply, err error) {
	st := d.U32()
	if r.attr = d.PostOp(); st == wire.OK {
		n := d.U32()
		r.eof, r.data = d.Bool(), d.Opaque(8<<20)
		if n != uint32(len(r.data)) {
			return r, fmt.Errorf("READ: count %d, %d bytes of data", n, len(r.data))
		}
	}
	if err := d.End(); err != nil {
		return r, err
	}
	if st != wire.OK {
		return r, status(st)
	}
	return r, nil
}

// readdir is one READDIR.
func (c *client) readdir(fh []byte, cookie uint64, count uint32) (list []wire.Entry, eof bool, err error) {
	d, err := c.nfs(wire.Readdir, fhArgs(fh).U64(cookie).U64(0).U32(count))
	if err != nil {
		return nil, false, err
	}
	d.PostOp()
	d.U64() // verifier
	list, eof = d.Entries(false)
	return list, eof, d.End()
}
