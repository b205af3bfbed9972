package protocol

import (
	"fmt"
	"testing"

	"sluice/tests/protocol/wire"
)

// Row "rpcvers other than 2": MSG_DENIED, RPC_MISMATCH 2..2 (RFC 5531 section 9).
func TestRPCVersionMismatch(t *testing.T) {
	c := dial(t, sharedServer(t))
	for _, vers := range []uint32{0, 1, 3, ^uint32(0)} {
		call := wire.NewCall(wire.NFS, 3, wire.Null, nil)
		call.Vers = vers
		r := value(c.conn.Call(call))(t)
		if !r.Denied || r.Stat != wire.RPCMismatch || r.Low != 2 || r.High != 2 {
			t.Errorf("RPC version %d: got %+v, want RPC_MISMATCH 2..2", vers, r)
		}
	}
}

// Rows "wrong version / program / procedure" and "NFSv4 call on a v3-only
// server" (RFC 5531 section 9, accept_stat). Over UDP NFS does not answer at all.
func TestRejections(t *testing.T) {
	c := dial(t, sharedServer(t))
	for _, row := range []struct {
		name             string
		prog, vers, proc uint32
		stat, low, high  uint32
	}{
		{"NFSv4 NULL", wire.NFS, 4, 0, wire.ProgMismatch, 3, 3},
		{"NFSv4 COMPOUND", wire.NFS, 4, 1, wire.ProgMismatch, 3, 3},
		{"NFSv2", wire.NFS, 2, 1, wire.ProgMismatch, 3, 3},
		{"NFSv0", wire.NFS, 0, 0, wire.ProgMismatch, 3, 3},
		{"MOUNT v4", wire.Mount, 4, 0, wire.ProgMismatch, 1, 3},
		{"MOUNT v0", wire.Mount, 0, 0, wire.ProgMismatch, 1, 3},
		{"portmap v1", wire.Portmap, 1, 0, wire.ProgMismatch, 2, 4},
		{"portmap v5", wire.Portmap, 5, 0, wire.ProgMismatch, 2, 4},
		{"NFSACL", 100227, 3, 0, wire.ProgUnavail, 0, 0},
		{"NLM", 100021, 4, 0, wire.ProgUnavail, 0, 0},
		{"program 0", 0, 0, 0, wire.ProgUnavail, 0, 0},
		{"NFS procedure 22", wire.NFS, 3, 22, wire.ProcUnavail, 0, 0},
		{"NFS procedure 2^32-1", wire.NFS, 3, ^uint32(0), wire.ProcUnavail, 0, 0},
		{"MOUNT v3 procedure 6", wire.Mount, 3, 6, wire.ProcUnavail, 0, 0},
		{"MOUNT v1 procedure 7", wire.Mount, 1, 7, wire.ProcUnavail, 0, 0},
		{"portmap v2 CALLIT", wire.Portmap, 2, 5, wire.ProcUnavail, 0, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := value(c.conn.Call(wire.NewCall(row.prog, row.vers, row.proc, nil)))(t)
			if r.Denied || r.Stat != row.stat || r.Low != row.low || r.High != row.high {
				t.Errorf("got %+v, want accept_stat %d range %d..%d", r, row.stat, row.low, row.high)
			}
		})
	}
}

// MOUNT version 2 lies inside 1..3 and is not served: the answer is the range
// all the same, never silence.
func TestMountVersion2(t *testing.T) {
	c := dial(t, sharedServer(t))
	r := value(c.conn.Call(wire.NewCall(wire.Mount, 2, 0, nil)))(t)
	if r.Denied || r.Stat != wire.ProgMismatch && r.Stat != wire.Success {
		t.Errorf("got %+v, want an answer that names the versions served", r)
	}
}

// sampleArgs are good arguments for every procedure of NFSv3 (RFC 1813 section 3.3).
func sampleArgs(fh []byte) map[uint32]wire.Enc {
	noSattr := func(e wire.Enc) wire.Enc { return e.U32(0, 0, 0, 0, 0, 0) }
	f := func() wire.Enc { return fhArgs(fh) }
	return map[uint32]wire.Enc{
		wire.Getattr:     f(),
		wire.Setattr:     noSattr(f()).U32(0),
		wire.Lookup:      f().Str("hello"),
		wire.Access:      f().U32(wire.AccessAll),
		wire.Readlink:    f(),
		wire.Read:        f().U64(0).U32(10),
		wire.Write:       f().U64(0).U32(4, 2).Opaque([]byte("data")),
		wire.Create:      noSattr(f().Str("new").U32(0)),
		wire.Mkdir:       noSattr(f().Str("new")),
		wire.Symlink:     noSattr(f().Str("new")).Str("target"),
		wire.Mknod:       noSattr(f().Str("new").U32(wire.Fifo)),
		wire.Remove:      f().Str("hello"),
		wire.Rmdir:       f().Str("dir"),
		wire.Rename:      f().Str("hello").Opaque(fh).Str("new"),
		wire.Link:        f().Opaque(fh).Str("new"),
		wire.Readdir:     f().U64(0).U64(0).U32(4096),
		wire.Readdirplus: f().U64(0).U64(0).U32(4096, 8192),
		wire.Fsstat:      f(),
		wire.Fsinfo:      f(),
		wire.Pathconf:    f(),
		wire.Commit:      f().U64(0).U32(0),
	}
}

// Row "wrong arguments": GARBAGE_ARGS for arguments that end early, at every
// place where they can (RFC 5531 section 9).
func TestGarbageArgs(t *testing.T) {
	c := dial(t, sharedServer(t))
	fh := c.mount(treePath("pub"))
	for proc, args := range sampleArgs(fh) {
		t.Run(fmt.Sprintf("procedure %d", proc), func(t *testing.T) {
			for n := 0; n < len(args); n += 4 {
				r := value(c.conn.Call(wire.NewCall(wire.NFS, 3, proc, args[:n])))(t)
				if r.Denied || r.Stat != wire.GarbageArgs {
					t.Fatalf("first %d of %d bytes: got %+v, want GARBAGE_ARGS", n, len(args), r)
				}
			}
			r := value(c.conn.Call(wire.NewCall(wire.NFS, 3, proc, args)))(t)
			if r.Denied || r.Stat != wire.Success {
				t.Fatalf("whole arguments: got %+v, want SUCCESS", r)
			}
		})
	}
}

// Bad values inside arguments are garbage too: a boolean of 2, a string longer
// than its bound, lengths past the end of the message.
func TestGarbageValues(t *testing.T) {
	c := dial(t, sharedServer(t))
	fh := c.mount(treePath("pub"))
	for name, row := range map[string]struct {
		proc uint32
		args wire.Enc
	}{
		"SETATTR discriminant 2":    {wire.Setattr, fhArgs(fh).U32(2, 0, 0, 0, 0, 0, 0)},
		"SETATTR time_how 3":        {wire.Setattr, fhArgs(fh).U32(0, 0, 0, 0, 3, 0, 0)},
		"CREATE createmode 3":       {wire.Create, fhArgs(fh).Str("x").U32(3, 0, 0, 0, 0, 0, 0)},
		"WRITE stable_how 3":        {wire.Write, fhArgs(fh).U64(0).U32(4, 3).Opaque([]byte("data"))},
		"WRITE count over data":     {wire.Write, fhArgs(fh).U64(0).U32(5, 0).Opaque([]byte("data"))},
		"LOOKUP length 2^32-1":      {wire.Lookup, fhArgs(fh).U32(^uint32(0))},
		"LOOKUP length 2^31":        {wire.Lookup, fhArgs(fh).U32(1<<31, 0, 0)},
		"GETATTR length past end":   {wire.Getattr, wire.Enc(nil).U32(32, 1, 2)},
		"READDIR without its count": {wire.Readdir, fhArgs(fh).U64(0).U64(0)},
	} {
		r := value(c.conn.Call(wire.NewCall(wire.NFS, 3, row.proc, row.args)))(t)
		if r.Denied || r.Stat != wire.GarbageArgs {
			t.Errorf("%s: got %+v, want GARBAGE_ARGS", name, r)
		}
	}
}

// Row "NULL procedure": it accepts AUTH_NONE, has no arguments and no results
// (RFC 1813 sections 3.3.0 and 5.2.0).
func TestNull(t *testing.T) {
	s := sharedServer(t)
	c := dial(t, s)
	for _, cred := range []wire.Opaque{wire.None, wire.Sys(0, 0), wire.Sys(owner, team)} {
		for _, p := range [][2]uint32{{wire.NFS, 3}, {wire.Mount, 1}, {wire.Mount, 3}, {wire.Portmap, 2}, {wire.Portmap, 3}, {wire.Portmap, 4}} {
			d := c.as(cred).call(p[0], p[1], 0, nil)
			c.end(d)
		}
	}
	call := wire.NewCall(wire.Mount, 3, 0, nil)
	call.Cred = wire.None
	if r := value(wire.CallUDP(s.addr, call))(t); r.Denied || r.Stat != wire.Success || len(r.Results) != 0 {
		t.Errorf("MOUNT NULL over UDP: %+v", r)
	}
}

// NFS is not served over UDP: whoever asks is told, so that it does not wait.
func TestNFSOverUDP(t *testing.T) {
	s := sharedServer(t)
	r := value(wire.CallUDP(s.addr, wire.NewCall(wire.NFS, 3, 0, nil)))(t)
	if r.Denied || r.Stat != wire.ProgUnavail {
		t.Errorf("got %+v, want PROG_UNAVAIL", r)
	}
}
