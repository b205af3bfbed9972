package protocol

import (
	"testing"

	"sluice/tests/protocol/wire"
)

// Row "any modifying procedure on a read-only export": NFS3ERR_ROFS, with the
// wcc_data that each result has (RFC 1813 sections 3.3.2, 3.3.7 to 3.3.15 and
// 3.3.21). An export that says rw gets the same from a server that only reads.
func TestModifyingProcedures(t *testing.T) {
	c := dial(t, sharedServer(t))
	procs := map[uint32]int{ // wcc_data in the result
		wire.Setattr: 1, wire.Write: 1, wire.Create: 1, wire.Mkdir: 1, wire.Symlink: 1, wire.Mknod: 1,
		wire.Remove: 1, wire.Rmdir: 1, wire.Rename: 2, wire.Link: 1, wire.Commit: 1,
	}
	for _, export := range []string{"pub", "rw"} {
		root := c.mount(treePath(export))
		attr := c.attrOf(root)
		for proc, n := range procs {
			d := c.nfs(proc, sampleArgs(root)[proc])
			if status := d.U32(); status != wire.ErrRofs {
				t.Errorf("%s, procedure %d: status %d, want NFS3ERR_ROFS", export, proc, status)
			}
			if proc == wire.Link {
				if a := d.PostOp(); a == nil || *a != attr {
					t.Errorf("%s, LINK: file attributes %+v", export, a)
				}
			}
			for range n {
				if _, after := d.Wcc(); after == nil || *after != attr {
					t.Errorf("%s, procedure %d: attributes after are %+v", export, proc, after)
				}
			}
			if err := d.End(); err != nil {
				t.Errorf("%s, procedure %d: %v", export, proc, err)
			}
		}
	}
}

// Every form that the arguments of SETATTR, CREATE and MKNOD can take is decoded.
func TestModifyingArguments(t *testing.T) {
	c := dial(t, sharedServer(t))
	fh := c.mount(treePath("pub"))
	full := func(e wire.Enc) wire.Enc { // a sattr3 with everything set
		return e.U32(1, 0o644, 1, 5, 1, 6, 1).U64(7).U32(2, 1, 2, 2, 3, 4)
	}
	none := func(e wire.Enc) wire.Enc { return e.U32(0, 0, 0, 0, 1, 1) } // times by the server
	name := func() wire.Enc { return fhArgs(fh).Str("new") }
	for what, row := range map[string]struct {
		proc uint32
		args wire.Enc
	}{
		"SETATTR with all and a guard": {wire.Setattr, full(fhArgs(fh)).U32(1, 5, 6)},
		"CREATE GUARDED":               {wire.Create, none(name().U32(1))},
		"CREATE EXCLUSIVE":             {wire.Create, name().U32(2).U64(99)},
		"MKNOD device":                 {wire.Mknod, none(name().U32(wire.Chr)).U32(1, 3)},
		"MKNOD socket":                 {wire.Mknod, full(name().U32(wire.Sock))},
	} {
		d := c.nfs(row.proc, row.args)
		if status := d.U32(); status != wire.ErrRofs {
			t.Errorf("%s: status %d, want NFS3ERR_ROFS", what, status)
		}
	}
}
