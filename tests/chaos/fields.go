package main

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sluice/tests/protocol/wire"
)

var fieldFaults = []fault{
	{"fields", "every field of every procedure's arguments out of range", attackWith(argumentFields)},
	{"fields", "every field of the call header out of range", attackWith(headerFields)},
}

// A field of arguments in XDR, with good contents.
type field struct {
	u32  *uint32
	u64  *uint64
	data []byte // opaque or string
}

func u32(v uint32) field  { return field{u32: &v} }
func u64(v uint64) field  { return field{u64: &v} }
func data(b []byte) field { return field{data: b} }
func str(s string) field  { return field{data: []byte(s)} }

// encode appends the field as it is.
func (f field) encode(e wire.Enc) wire.Enc {
	switch {
	case f.u32 != nil:
		return e.U32(*f.u32)
	case f.u64 != nil:
		return e.U64(*f.u64)
	}
	return e.Opaque(f.data)
}

// bad returns encodings that take the place of the field.
func (f field) bad() (all []wire.Enc) {
	e := wire.Enc(nil)
	switch {
	case f.u32 != nil:
		for _, v := range []uint32{0, 1, 2, 7, 8, 63, 511, 1 << 20, 1<<20 + 1, 1<<31 - 1, 1 << 31, 1<<32 - 1} {
			all = append(all, e.U32(v))
		}
	case f.u64 != nil:
		for _, v := range []uint64{0, 1, 1<<31 - 1, 1 << 32, 1<<63 - 4096, 1<<63 - 1, 1 << 63, 1<<64 - 1} {
			all = append(all, e.U64(v))
		}
	default:
		for _, n := range []int{0, 1, 27, 28, 56, 63, 64, 65, 255, 256, 1023, 1024, 1025, 4096, 60_000} {
			all = append(all, e.Opaque(make([]byte, n)), e.Str(strings.Repeat("a", n)))
		}
		for _, s := range []string{".", "..", "../..", "/", "/etc/passwd", "a/b", "a\x00b", "\xff\xfe", "%s%n", strings.Repeat("../", 300)} {
			all = append(all, e.Str(s))
		}
		// Lengths that lie: more than there is, up to 4 GiB.
		for _, n := range []uint32{uint32(len(f.data)) + 1, 1 << 16, 1 << 20, 1 << 31, 1<<32 - 4, 1<<32 - 1} {
			all = append(all, append(e.U32(n), f.data...))
		}
	}
	return all
}

// procedure is a procedure and good arguments.
type procedure struct {
	prog, vers, proc uint32
	args             []field
}

// procedures are all that the server has, with arguments as RFC 1813 has them.
func (v *victim) procedures(path string) []procedure {
	fh, dir := data(v.src.fh), data(v.root)
	name := str("small")
	none := u32(0)
	sattr := []field{none, none, none, none, none, none}
	nfs := func(proc uint32, args ...field) procedure { return procedure{wire.NFS, 3, proc, args} }
	all := []procedure{
		nfs(wire.Null), nfs(wire.Getattr, fh), nfs(wire.Setattr, append(append([]field{fh}, sattr...), none)...),
		nfs(wire.Lookup, dir, name), nfs(wire.Access, fh, u32(wire.AccessAll)), nfs(wire.Readlink, fh),
		nfs(wire.Read, fh, u64(0), u32(4096)), nfs(wire.Write, fh, u64(0), u32(4), u32(0), data([]byte("data"))),
		nfs(wire.Create, append([]field{dir, name, u32(0)}, sattr...)...), nfs(wire.Mkdir, append([]field{dir, name}, sattr...)...),
		nfs(wire.Symlink, append(append([]field{dir, name}, sattr...), str("target"))...),
		nfs(wire.Mknod, append([]field{dir, name, u32(wire.Fifo)}, sattr...)...),
		nfs(wire.Remove, dir, name), nfs(wire.Rmdir, dir, name), nfs(wire.Rename, dir, name, dir, str("other")), nfs(wire.Link, fh, dir, name),
		nfs(wire.Readdir, dir, u64(0), u64(0), u32(4096)), nfs(wire.Readdirplus, dir, u64(0), u64(0), u32(4096), u32(8192)),
		nfs(wire.Fsstat, dir), nfs(wire.Fsinfo, dir), nfs(wire.Pathconf, dir), nfs(wire.Commit, fh, u64(0), u32(0)),
	}
	for _, vers := range []uint32{1, 2, 3} {
		for proc := range uint32(6) {
			all = append(all, procedure{wire.Mount, vers, proc, []field{str(path)}})
		}
	}
	mapping := []field{u32(wire.NFS), u32(3), u32(6), u32(2049)}
	for proc := range uint32(6) {
		all = append(all, procedure{wire.Portmap, 2, proc, mapping})
	}
	for proc := range uint32(13) {
		rpcb := []field{u32(wire.NFS), u32(3), str("tcp"), str("127.0.0.1.8.1"), str("root")}
		all = append(all, procedure{wire.Portmap, 3, proc, rpcb}, procedure{wire.Portmap, 4, proc, rpcb})
	}
	return all
}

func argumentFields(v *victim) {
	c := v.dial(v.server)
	for _, p := range v.procedures(v.path("data")) {
		for i := range p.args {
			for _, bad := range p.args[i].bad() {
				args := wire.Enc(nil)
				for _, f := range p.args[:i] {
					args = f.encode(args)
				}
				args = append(args, bad...)
				for _, f := range p.args[i+1:] {
					args = f.encode(args)
				}
				v.expectSane(c, p, args)
			}
		}
		v.truncated(c, p)
	}
}

// truncated cuts the good arguments everywhere, and adds to them.
func (v *victim) truncated(c *client, p procedure) {
	args := wire.Enc(nil)
	for _, f := range p.args {
		args = f.encode(args)
	}
	for n := range args {
		v.expectSane(c, p, args[:n])
	}
	v.expectSane(c, p, append(slices.Clone(args), make([]byte, 4096)...))
}

// legal are the values of nfsstat3 (RFC 1813 section 2.6); mountstat3 (section
// 5.1.5) is a part of them.
var legal = []uint32{0, 1, 2, 5, 6, 13, 17, 18, 19, 20, 21, 22, 27, 28, 30, 31, 63, 66, 69, 70, 71,
	10001, 10002, 10003, 10004, 10005, 10006, 10007, 10008}

// expectSane makes a call that may be nonsense: it gets a reply that makes sense.
func (v *victim) expectSane(c *client, p procedure, args []byte) {
	v.tried.Add(1)
	r, err := c.conn.Call(wire.NewCall(p.prog, p.vers, p.proc, args))
	if err != nil {
		v.fatalf("program %d version %d procedure %d, arguments % x: %w", p.prog, p.vers, p.proc, args[:min(len(args), 100)], err)
	}
	if r.Denied || r.Stat != wire.Success || p.prog != wire.NFS || p.proc == wire.Null {
		return
	}
	d := wire.Dec{B: r.Results}
	if st := d.U32(); !slices.Contains(legal, st) {
		v.errorf("procedure %d: status %d is none of RFC 1813", p.proc, st)
	}
	if len(r.Results) > 2<<20 {
		v.errorf("procedure %d: result of %d bytes", p.proc, len(r.Results))
	}
	if bytes.Contains(r.Results, []byte("root:x:0:")) {
		v.errorf("procedure %d, arguments % x: /etc/passwd", p.proc, args[:min(len(args), 100)])
	}
}

// headerFields changes every word of a call's header.
func headerFields(v *victim) {
	good := v.getattrRecord(9)
	header := len(good) - len(fhArgs(v.root))
	values := []uint32{0, 1, 2, 3, 4, 5, 16, 17, 255, 256, 400, 401, 65535, 1<<31 - 1, 1 << 31, 1<<32 - 1}
	for at := 0; at < header; at += 4 {
		for _, value := range values {
			v.tried.Add(1)
			rec := slices.Clone(good)
			copy(rec[at:], wire.Enc(nil).U32(value))
			if err := v.reaction(rec); err != nil {
				v.errorf("word %d of the header is %#x: %w", at/4, value, err)
			}
		}
	}
}

// reaction sends a record and a good call; what comes back must be replies, or
// the end of the connection.
func (v *victim) reaction(rec []byte) error {
	c, err := dial(v.addr)
	if err != nil {
		return err
	}
	defer c.conn.Close()
	if err := c.conn.Send(append(wire.Mark(rec), wire.Mark(v.getattrRecord(10))...)); err != nil && !gone(err) {
		return err
	}
	for {
		b, err := c.conn.Receive()
		if gone(err) {
			return nil
		}
		if err != nil {
			return err
		}
		r, err := wire.ParseReply(b)
		if err != nil {
			return fmt.Errorf("% x: %w", b, err)
		}
		if r.XID == 10 {
			if r.Denied || r.Stat != wire.Success {
				return errors.New("the good call behind it was not answered")
			}
			return nil
		}
	}
}
