package protocol

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"sluice/tests/protocol/wire"
)

const (
	accR = wire.AccessRead
	accL = wire.AccessLookup
	accX = wire.AccessExecute
)

// Rows "ACCESS" and "permission to READ" (RFC 1813 sections 3.3.4 and 4.4): the
// bits are the true ones. LOOKUP is for directories only, EXECUTE for the rest;
// no write bit on a read-only export; group and supplementary groups count.
func TestAccess(t *testing.T) {
	needRoot(t)
	c := dial(t, sharedServer(t))
	root := c.mount(treePath("pub"))
	ownerCred, stranger := wire.Sys(owner, owner), wire.Sys(2000, 2000)
	for _, row := range []struct {
		name string
		who  string
		cred wire.Opaque
		want uint32
	}{
		{"hello", "root", wire.Sys(0, 0), accR},
		{"hello", "stranger", stranger, accR},
		{"dir", "stranger", stranger, accR | accL},
		{"program", "stranger", stranger, accR | accX},
		{"program", "owner", ownerCred, accR | accX},
		{"mode000", "owner", ownerCred, 0},
		{"mode000", "root", wire.Sys(0, 0), accR},
		{"ownerwrite", "owner", ownerCred, 0},
		{"execonly", "stranger", stranger, accX},
		{"secret", "stranger", stranger, 0},
		{"secret", "root", wire.Sys(0, 0), accR},
		{"closed", "stranger", stranger, 0},
		{"closed", "root", wire.Sys(0, 0), accR | accL},
		{"listonly", "stranger", stranger, accR},
		{"teamread", "stranger", stranger, 0},
		{"teamread", "primary group", wire.Sys(2000, team), accR},
		{"teamread", "first of the groups", wire.Sys(2000, 2000, team, 5), accR},
		{"teamread", "last of 16 groups", wire.Sys(2000, 2000, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, team), accR},
		{"grouponly", "group", wire.Sys(2000, owner), accR | accX},
		{"grouponly", "stranger", stranger, 0},
		{"link", "stranger", stranger, accR | accX}, // links have mode 0777
	} {
		status, a, bits := c.as(row.cred).access(c.find(root, row.name), wire.AccessAll)
		if status != wire.OK || a == nil || bits != row.want {
			t.Errorf("%s as %s: status %d, bits %#x, want %#x", row.name, row.who, status, bits, row.want)
		}
	}
}

// Row "ACCESS": only the bits asked for, for every combination of them.
func TestAccessAsked(t *testing.T) {
	c := dial(t, sharedServer(t))
	root := c.mount(treePath("pub"))
	file, dir := c.find(root, "hello"), c.find(root, "dir")
	for asked := range uint32(0x80) {
		if _, _, bits := c.access(file, asked); bits != asked&accR {
			t.Errorf("file, asked %#x: got %#x", asked, bits)
		}
		if _, _, bits := c.access(dir, asked); bits != asked&(accR|accL) {
			t.Errorf("directory, asked %#x: got %#x", asked, bits)
		}
	}
	if _, _, bits := c.access(file, ^uint32(0)); bits != accR {
		t.Errorf("every bit asked: got %#x", bits)
	}
}

// An export that is rw is served read-only all the same: no write bit.
func TestAccessWritableExport(t *testing.T) {
	c := dial(t, sharedServer(t))
	if _, _, bits := c.access(c.mount(treePath("rw")), wire.AccessAll); bits != accR|accL {
		t.Errorf("got %#x, want READ and LOOKUP alone", bits)
	}
}

// A POSIX ACL decides like the mode: both for ACCESS and for READ.
func TestPosixACL(t *testing.T) {
	needRoot(t)
	setfacl, err := exec.LookPath("setfacl")
	if err != nil {
		skip(t, "setfacl is not installed")
	}
	c := dial(t, sharedServer(t))
	path := treePath("pub", "acl")
	must(t, os.WriteFile(path, []byte(helloText), 0o600))
	t.Cleanup(func() { os.Remove(path) })
	if out, err := exec.Command(setfacl, "-m", "u:2001:r,g:2002:r", path).CombinedOutput(); err != nil {
		skip(t, "setfacl: %s", out)
	}
	fh := c.find(c.mount(treePath("pub")), "acl")
	time.Sleep(250 * time.Millisecond) // the change is old: what it allows may be remembered
	for _, row := range []struct {
		who  string
		cred wire.Opaque
		may  bool
	}{
		{"the user", wire.Sys(2001, 2000), true},
		{"a member of the group", wire.Sys(2000, 2000, 2002), true},
		{"another user", wire.Sys(2003, 2000), false},
	} {
		who := c.as(row.cred)
		if _, _, bits := who.access(fh, accR); bits == accR != row.may {
			t.Errorf("%s: ACCESS gives %#x", row.who, bits)
		}
		if r := who.read(fh, 0, 100); (r.status == wire.OK) != row.may {
			t.Errorf("%s: READ status %d", row.who, r.status)
		}
	}
	// Taken away, it no longer holds, for those who have just used it too.
	must(t, exec.Command(setfacl, "-b", path).Run())
	if r := c.as(wire.Sys(2001, 2000)).read(fh, 0, 100); r.status != wire.ErrAcces {
		t.Errorf("READ after the ACL has gone: status %d, want NFS3ERR_ACCES", r.status)
	}
}

// Squashing (exports(5)): root_squash maps uid 0 and gid 0 to the anonymous
// user, all_squash everybody; anonuid and anongid say who that is.
func TestSquash(t *testing.T) {
	needRoot(t)
	c := dial(t, sharedServer(t))
	for _, row := range []struct {
		export, name, who string
		cred              wire.Opaque
		want              uint32
	}{
		{"pub", "secret", "root", wire.Sys(0, 0), wire.OK},
		{"squash", "secret", "root", wire.Sys(0, 0), wire.ErrAcces},
		{"squash", "hello", "root", wire.Sys(0, 0), wire.OK},
		{"squash", "mode000", "its owner", wire.Sys(owner, owner), wire.OK},
		{"squash", "teamread", "root in the group", wire.Sys(0, 0, team), wire.OK},
		{"anon", "secret", "root", wire.Sys(0, 0), wire.ErrAcces},
		{"anon", "mode000", "root as the owner", wire.Sys(0, 0), wire.OK},
		{"anon", "teamread", "root as the group", wire.Sys(0, 0), wire.OK},
		{"anon", "mode000", "another user", wire.Sys(2000, 2000), wire.ErrAcces},
		{"all", "mode000", "another user as the owner", wire.Sys(2000, 2000), wire.OK},
		{"all", "teamread", "another user as the group", wire.Sys(2000, 2000), wire.OK},
		{"all", "secret", "root", wire.Sys(0, 0), wire.ErrAcces},
		{"all", "grouponly", "a group that all_squash drops", wire.Sys(2000, owner, owner), wire.ErrAcces},
	} {
		fh := c.find(c.mount(treePath(row.export)), row.name)
		if r := c.as(row.cred).read(fh, 0, 100); r.status != row.want || r.attr == nil {
			t.Errorf("%s/%s as %s: status %d, want %d", row.export, row.name, row.who, r.status, row.want)
		}
	}
}
