package exports

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"sluice/tests/protocol/wire"
)

const errNotsupp = 10004 // NFS3ERR_NOTSUPP, RFC 1813 section 2.6

// exports(5), mountpoint: "makes it possible to only export a directory if it has
// successfully been mounted on". MNT of one that is not answers NFS3ERR_NOENT
// (nfs-utils, get_rootfh), handles are stale.
func TestMountpoint(t *testing.T) {
	for _, row := range []struct{ option, at string }{{"mp", "/x"}, {"mountpoint", "/x"}, {"mp=%s/y", "/y"}, {"mountpoint=%s/x", "/x"}} {
		t.Run(row.option, func(t *testing.T) {
			dir := tree(t, "x/file", "y/")
			option := row.option
			if strings.Contains(option, "%") {
				option = fmt.Sprintf(option, dir)
			}
			s := startServer(t, fmt.Sprintf("%s/x *(ro,%s)\n", dir, option))
			c := s.from(inside)
			if st, _ := c.mnt(dir + "/x"); st != wire.ErrNoent {
				t.Errorf("MNT with nothing mounted: status %d, want NFS3ERR_NOENT", st)
			}
			mountFS(t, dir+row.at, "file")
			fh := c.mount(dir + "/x")
			if st, data := c.read(c.find(fh, "file")); st != wire.OK || !strings.HasSuffix(data, "file") {
				t.Errorf("READ: status %d, %q", st, data)
			}
			unmount(t, dir+row.at)
			s.await(func() bool { st, _ := c.getattr(fh); return st == wire.ErrStale }, "it is not stale")
			if st, _ := c.mnt(dir + "/x"); st != wire.ErrNoent {
				t.Errorf("MNT after the unmount: status %d, want NFS3ERR_NOENT", st)
			}
		})
	}
}

// nordirplus "will disable READDIRPLUS request handling" (exports(5)); Linux nfsd
// answers NFS3ERR_NOTSUPP (nfsd3_proc_readdirplus). Clients fall back to READDIR.
func TestNoReaddirplus(t *testing.T) {
	dir := tree(t, "a/file", "b/file")
	s := startServer(t, fmt.Sprintf("%[1]s/a *(ro,nordirplus)\n%[1]s/b *(ro)\n", dir))
	c := s.from(inside)
	a, b := c.mount(dir+"/a"), c.mount(dir+"/b")
	for _, row := range []struct {
		fh   []byte
		plus bool
		want uint32
	}{{a, false, wire.OK}, {a, true, errNotsupp}, {b, false, wire.OK}, {b, true, wire.OK}} {
		if st, _ := c.list(row.fh, row.plus); st != row.want {
			t.Errorf("plus %v: status %d, want %d", row.plus, st, row.want)
		}
	}
}

// fsid= gives an export an identity of its own: the same for another directory
// with the same number, so that a tree may be moved under its clients; and of two
// with one number only the first is served.
func TestFsid(t *testing.T) {
	dir := tree(t, "a/file", "b/file", "c/file")
	s := startServer(t, fmt.Sprintf("%[1]s/a *(ro,fsid=7)\n%[1]s/c *(ro,fsid=0x7)\n%[1]s/b *(ro,fsid=root)\n", dir))
	c := s.from(inside)
	_, a := c.getattr(c.mount(dir + "/a"))
	_, b := c.getattr(c.mount(dir + "/b"))
	if a.FSID != 7 || b.FSID != 0 {
		t.Errorf("fsid %d and %d, want 7 and 0", a.FSID, b.FSID)
	}
	if st, _ := c.mnt(dir + "/c"); st != wire.ErrAcces {
		t.Errorf("MNT of the second export with fsid=7: status %d", st)
	}
	log := s.log.String()
	for _, want := range []string{s.exports + ":1:", s.exports + ":2:", dir + "/c", dir + "/a"} {
		if !strings.Contains(log, want) {
			t.Errorf("the log does not name %s", want)
		}
	}
	const uuid = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
	s = startServer(t, fmt.Sprintf("%[1]s/a *(ro,fsid=%[2]s)\n%[1]s/b *(ro,fsid=%[3]s)\n", dir, uuid, strings.ToUpper(strings.ReplaceAll(uuid, "-", ":"))))
	c = s.from(inside)
	c.mount(dir + "/a")
	if st, _ := c.mnt(dir + "/b"); st != wire.ErrAcces {
		t.Errorf("MNT of the second export with one UUID: status %d", st)
	}
}

// rw is served read-only: ACCESS says so (RFC 1813 section 3.3.4), writing
// answers NFS3ERR_ROFS, and the operator is told at start.
func TestReadOnly(t *testing.T) {
	dir := tree(t, "file")
	must(t, os.Chmod(dir+"/file", 0o666))
	s := startServer(t, dir+" *(rw,no_root_squash)\n")
	c := s.from(inside)
	fh := c.find(c.mount(dir), "file")
	if got := c.access(fh, wire.AccessAll); got != wire.AccessRead {
		t.Errorf("ACCESS of a file for everyone to write: %#x, want READ alone", got)
	}
	d := c.call(wire.NFS, wire.Write, fhArgs(fh).U64(0).U32(1, 0).Opaque([]byte("x")))
	if st := d.U32(); st != wire.ErrRofs {
		t.Errorf("WRITE: status %d, want NFS3ERR_ROFS", st)
	}
	if !strings.Contains(s.log.String(), "read-only") {
		t.Error("nothing is said of rw at start")
	}
}

// An entry that allows only flavours which are not served refuses its clients,
// also those that another entry would let in: the entry for the single host goes
// first (exports(5), "Machine Name Formats").
func TestSecFlavor(t *testing.T) {
	dir := tree(t, "a/file", "b/file", "c/file")
	s := startServer(t, fmt.Sprintf("%[1]s/a %[2]s(ro,sec=krb5) *(ro)\n%[1]s/b *(ro,sec=krb5:sys)\n%[1]s/c *(ro,sec=none,anonuid=77)\n", dir, inside))
	c := s.from(inside)
	if st, _ := c.mnt(dir + "/a"); st != wire.ErrAcces {
		t.Errorf("MNT where only krb5 is allowed: status %d", st)
	}
	fh := s.from(other).mount(dir + "/a")
	if st, _ := c.getattr(fh); st != wire.ErrAcces {
		t.Errorf("GETATTR where only krb5 is allowed: status %d, want NFS3ERR_ACCES", st)
	}
	c.mount(dir + "/b")
	none := c.mount(dir + "/c")
	if st, _ := c.getattr(none); st != wire.ErrAcces {
		t.Errorf("GETATTR with AUTH_SYS where only none is allowed: status %d", st)
	}
	must(t, os.Chown(dir+"/c/file", 77, 77))
	must(t, os.Chmod(dir+"/c/file", 0o400))
	if st, _ := c.as(wire.None).read(c.as(wire.None).find(none, "file")); st != wire.OK {
		t.Errorf("READ with AUTH_NONE of the anonymous user's file: status %d", st)
	}
}

// secure "requires that requests not using gss originate on an Internet port less
// than IPPORT_RESERVED (1024)". MNT is refused (nfs-utils' mountd: ACCES), calls
// answer NFS3ERR_PERM (nfsd_setuser_and_check_port).
func TestSecure(t *testing.T) {
	dir := tree(t, "a/file", "b/file")
	s := startServer(t, fmt.Sprintf("%[1]s/a *(ro)\n%[1]s/b *(ro,insecure)\n", dir))
	c := s.dial(inside, false)
	if st, _ := c.mnt(dir + "/a"); st != wire.ErrAcces {
		t.Errorf("MNT from an unprivileged port: status %d", st)
	}
	fh := s.from(inside).mount(dir + "/a")
	if st, _ := c.getattr(fh); st != wire.ErrPerm {
		t.Errorf("GETATTR from an unprivileged port: status %d", st)
	}
	c.mount(dir + "/b")
}

// subtree_check: what is reached by its handle must lie in the exported tree, and
// every directory above must let the caller search (nfsd_acceptable in
// fs/nfsd/nfsfh.c); else the handle is stale.
func TestSubtreeCheck(t *testing.T) {
	dir := tree(t, "x/open/file", "x/closed/file", "x/closed/sub/", "out/", "x/open/sub/deep/file")
	must(t, os.Chmod(dir+"/x/closed", 0o700))
	check := func(option string, want map[string]uint32) {
		t.Helper()
		s := startServer(t, fmt.Sprintf("%s/x *(ro,%s,no_root_squash)\n", dir, option))
		root := s.from(inside)
		user := root.as(wire.Sys(1000, 1000))
		top := root.mount(dir + "/x")
		handles := map[string][]byte{
			"open/file": root.find(top, "open", "file"), "closed/file": root.find(top, "closed", "file"),
			"closed/sub": root.find(top, "closed", "sub"), "open/sub/deep": root.find(top, "open", "sub", "deep"),
			"moved out": root.find(top, "open", "sub", "deep", "file"),
		}
		for _, fh := range handles {
			if st, _ := root.getattr(fh); st != wire.OK {
				t.Errorf("%s: root, who may search everything: status %d", option, st)
			}
		}
		must(t, os.Rename(dir+"/x/open/sub/deep/file", dir+"/out/file"))
		defer os.Rename(dir+"/out/file", dir+"/x/open/sub/deep/file")
		for name, fh := range handles {
			if st, _ := user.getattr(fh); st != want[name] {
				t.Errorf("%s, %s: status %d, want %d", option, name, st, want[name])
			}
		}
		if st, _ := user.getattr(top); st != wire.OK {
			t.Errorf("%s: the root: status %d", option, st)
		}
	}
	check("no_subtree_check", map[string]uint32{"moved out": wire.OK})
	check("subtree_check", map[string]uint32{"closed/file": wire.ErrStale, "closed/sub": wire.ErrStale, "moved out": wire.ErrStale})
}

// With subtree_check a file's handle is good after a restart of the server, where
// the kernel can say which directory it is in (Linux 6.13, ext4).
func TestSubtreeCheckRestart(t *testing.T) {
	dir := tree(t, "m/", "image")
	must(t, os.Truncate(dir+"/image", 8<<20))
	runCommand(t, "mkfs.ext4", "-q", "-F", dir+"/image")
	runCommand(t, "mount", "-o", "loop", dir+"/image", dir+"/m")
	t.Cleanup(func() { _ = syscall.Unmount(dir+"/m", syscall.MNT_DETACH) })
	plant(t, dir+"/m", "x/sub/file")
	s := startServer(t, dir+"/m/x *(ro,subtree_check)\n")
	c := s.from(inside)
	fh := c.find(c.mount(dir+"/m/x"), "sub", "file")
	must(t, os.WriteFile("/proc/sys/vm/drop_caches", []byte("2"), 0))
	s.stop()
	unmount(t, dir+"/m")
	runCommand(t, "mount", "-o", "loop", dir+"/image", dir+"/m")
	s.start()
	c = s.from(inside)
	if st, data := c.read(fh); st != wire.OK || data != "x/sub/file" {
		t.Errorf("READ after a restart: status %d, %q", st, data)
	}
}
