package protocol

import (
	"math"
	"syscall"
	"testing"

	"sluice/tests/protocol/wire"
)

// Row "FSINFO" (RFC 1813 section 3.3.19): rtmax is rtpref and at least 1 MiB,
// dtpref not zero, time_delta a nanosecond, properties 0x1b.
func TestFsinfo(t *testing.T) {
	c := dial(t, sharedServer(t))
	d := c.nfs(wire.Fsinfo, fhArgs(c.mount(treePath("pub"))))
	if status, a := d.U32(), d.PostOp(); status != wire.OK || a == nil {
		t.Fatalf("status %d, attributes %v", status, a != nil)
	}
	rtmax, rtpref, rtmult := d.U32(), d.U32(), d.U32()
	wtmax, wtpref, wtmult := d.U32(), d.U32(), d.U32()
	dtpref, maxfile := d.U32(), d.U64()
	sec, nsec, properties := d.U32(), d.U32(), d.U32()
	must(t, d.End())
	if rtmax != 1<<20 || rtpref != rtmax || rtmult != 4096 {
		t.Errorf("rtmax %d, rtpref %d, rtmult %d", rtmax, rtpref, rtmult)
	}
	if wtmax == 0 || wtpref == 0 || wtpref > wtmax || wtmult == 0 {
		t.Errorf("wtmax %d, wtpref %d, wtmult %d: clients divide by these", wtmax, wtpref, wtmult)
	}
	if dtpref == 0 || maxfile != math.MaxInt64 || sec != 0 || nsec != 1 || properties != 0x1b {
		t.Errorf("dtpref %d, maxfilesize %d, time_delta %d.%d, properties %#x", dtpref, maxfile, sec, nsec, properties)
	}
}

// The rtmax told is the one that holds, with --max-read too.
func TestMaxRead(t *testing.T) {
	must(t, makeTree())
	s := startServer(t, treePath("pub")+" *(ro,insecure,no_root_squash,no_subtree_check)\n", "--max-read", "64K")
	c := dial(t, s)
	root := c.mount(treePath("pub"))
	d := c.nfs(wire.Fsinfo, fhArgs(root))
	d.U32()
	d.PostOp()
	if rtmax := d.U32(); rtmax != 64<<10 {
		t.Errorf("rtmax %d", rtmax)
	}
	if r := c.read(c.find(root, "big"), 0, 1<<20); r.status != wire.OK || len(r.data) != 64<<10 || r.eof {
		t.Errorf("READ: status %d, %d bytes, eof %v", r.status, len(r.data), r.eof)
	}
}

// Row "PATHCONF" (section 3.3.20): name_max 255, no_trunc TRUE; the handle is
// validated, as by FSSTAT and FSINFO.
func TestPathconf(t *testing.T) {
	c := dial(t, sharedServer(t))
	d := c.nfs(wire.Pathconf, fhArgs(c.mount(treePath("pub"))))
	if status, a := d.U32(), d.PostOp(); status != wire.OK || a == nil {
		t.Fatalf("status %d, attributes %v", status, a != nil)
	}
	linkmax, nameMax, noTrunc, chown, insensitive, preserving := d.U32(), d.U32(), d.Bool(), d.Bool(), d.Bool(), d.Bool()
	must(t, d.End())
	if linkmax == 0 || nameMax != 255 || !noTrunc || !chown || insensitive || !preserving {
		t.Errorf("linkmax %d, name_max %d, no_trunc %v, chown_restricted %v, case_insensitive %v, case_preserving %v",
			linkmax, nameMax, noTrunc, chown, insensitive, preserving)
	}
	for _, proc := range []uint32{wire.Pathconf, wire.Fsinfo, wire.Fsstat} {
		d := c.nfs(proc, fhArgs(make([]byte, 32)))
		if status, a := d.U32(), d.PostOp(); status != wire.ErrBadhandle || a != nil || d.End() != nil {
			t.Errorf("procedure %d of a bad handle: status %d, want NFS3ERR_BADHANDLE", proc, status)
		}
	}
}

// FSSTAT tells what statfs(2) tells (section 3.3.18). Free space moves while the
// test runs, the rest does not.
func TestFsstat(t *testing.T) {
	c := dial(t, sharedServer(t))
	d := c.nfs(wire.Fsstat, fhArgs(c.mount(treePath("pub"))))
	if status, a := d.U32(), d.PostOp(); status != wire.OK || a == nil {
		t.Fatalf("status %d, attributes %v", status, a != nil)
	}
	tbytes, fbytes, abytes := d.U64(), d.U64(), d.U64()
	tfiles, ffiles, afiles := d.U64(), d.U64(), d.U64()
	invarsec := d.U32()
	must(t, d.End())
	var st syscall.Statfs_t
	must(t, syscall.Statfs(treePath("pub"), &st))
	size := uint64(st.Bsize)
	const moving = 1 << 30
	near := func(a, b uint64) bool { return a < b+moving && b < a+moving }
	if tbytes != st.Blocks*size || !near(fbytes, st.Bfree*size) || !near(abytes, st.Bavail*size) {
		t.Errorf("bytes: total %d, free %d, available %d; statfs says %d, %d, %d", tbytes, fbytes, abytes, st.Blocks*size, st.Bfree*size, st.Bavail*size)
	}
	if tfiles != st.Files || !near(ffiles, st.Ffree) || afiles != ffiles || invarsec != 0 {
		t.Errorf("files: total %d, free %d, available %d; invarsec %d", tfiles, ffiles, afiles, invarsec)
	}
}

// Row "fsid": stable per export across restarts, told apart by fsid=, distinct
// for distinct file systems.
func TestFsid(t *testing.T) {
	needRoot(t)
	must(t, makeTree())
	other := value(makeDir("fsid-"))(t)
	mountTmpfs(t, other)
	exports := treePath("pub") + " *(ro,insecure,no_subtree_check)\n" +
		treePath("squash") + " *(ro,insecure,fsid=4711,no_subtree_check)\n" +
		other + " *(ro,insecure,no_subtree_check)\n"
	s := startServer(t, exports)
	read := func() [3]uint64 {
		c := dial(t, s)
		return [3]uint64{c.attrOf(c.mount(treePath("pub"))).FSID, c.attrOf(c.mount(treePath("squash"))).FSID, c.attrOf(c.mount(other)).FSID}
	}
	before := read()
	if before[1] != 4711 {
		t.Errorf("fsid %d under fsid=4711", before[1])
	}
	if before[0] == before[2] || before[0] == before[1] {
		t.Errorf("fsids are not distinct: %x", before)
	}
	s.restart(t)
	if after := read(); after != before {
		t.Errorf("fsids after a restart are %x, before %x", after, before)
	}
}
