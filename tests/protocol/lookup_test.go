package protocol

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/tests/protocol/wire"
)

// LOOKUP (RFC 1813 section 3.3.3): handle and attributes of the object, and the
// directory's attributes whatever comes out.
func TestLookup(t *testing.T) {
	c := dial(t, sharedServer(t))
	root := c.mount(treePath("pub"))
	for _, row := range []struct {
		dir  []string
		name string
		want uint32
	}{
		{nil, "hello", wire.OK},
		{nil, "dir", wire.OK},
		{nil, "link", wire.OK}, // the link itself
		{nil, "nothing", wire.ErrNoent},
		{[]string{"hello"}, "x", wire.ErrNotdir},
		{[]string{"link"}, "x", wire.ErrNotdir},
	} {
		dir := c.find(root, row.dir...)
		r := c.lookup(dir, row.name)
		if r.status != row.want {
			t.Errorf("%v %q: status %d, want %d", row.dir, row.name, r.status, row.want)
		}
		if r.dir == nil || r.dir.FileID != c.attrOf(dir).FileID {
			t.Errorf("%v %q: attributes of the directory missing or wrong", row.dir, row.name)
		}
		if r.status == wire.OK && (r.attr == nil || *r.attr != c.attrOf(r.fh)) {
			t.Errorf("%v %q: attributes %+v, GETATTR says %+v", row.dir, row.name, r.attr, c.attrOf(r.fh))
		}
	}
}

// Row "LOOKUP of . and ..": itself, the parent; .. at the export's root is the
// root (section 3.2).
func TestLookupDots(t *testing.T) {
	c := dial(t, sharedServer(t))
	root := c.mount(treePath("pub"))
	dir, sub := c.find(root, "dir"), c.find(root, "dir", "sub")
	for _, row := range []struct {
		what       string
		from, want []byte
		name       string
	}{
		{". of a directory", dir, dir, "."},
		{". of the root", root, root, "."},
		{".. of a directory", sub, dir, ".."},
		{".. of one in the root", dir, root, ".."},
		{".. of the root", root, root, ".."},
	} {
		r := c.lookup(row.from, row.name)
		if r.status != wire.OK || !slices.Equal(r.fh, row.want) {
			t.Errorf("%s: status %d, handle % x, want % x", row.what, r.status, r.fh, row.want)
			continue
		}
		if r.attr == nil || *r.attr != c.attrOf(row.want) {
			t.Errorf("%s: wrong attributes", row.what)
		}
	}
	file := c.find(root, "hello")
	for _, name := range []string{".", ".."} {
		if r := c.lookup(file, name); r.status != wire.ErrNotdir {
			t.Errorf("%q of a file: status %d, want NFS3ERR_NOTDIR", name, r.status)
		}
	}
}

// Row "names": empty, with a slash, with NUL: ACCES (Linux says GARBAGE_ARGS);
// over 255 bytes NAMETOOLONG; all other bytes are a name, invalid UTF-8 too.
func TestLookupNames(t *testing.T) {
	c := dial(t, sharedServer(t))
	root := c.mount(treePath("pub"))
	odd := map[string]bool{"\xff\xfe\x80": true, "new\nline": true, "\\x": true, " ": true, "...": true, strings.Repeat("n", 255): true}
	for name := range odd {
		must(t, os.WriteFile(treePath("pub", name), nil, 0o644))
		t.Cleanup(func() { os.Remove(treePath("pub", name)) })
	}
	rows := map[string]uint32{
		"": wire.ErrAcces, "a/b": wire.ErrAcces, "/": wire.ErrAcces, "../x": wire.ErrAcces, "a\x00b": wire.ErrAcces, "\x00": wire.ErrAcces,
		"hello\x00":              wire.ErrAcces,
		strings.Repeat("n", 256): wire.ErrNametoo, strings.Repeat("m", 255): wire.ErrNoent, strings.Repeat("n", 1000): wire.ErrNametoo,
	}
	for name := range odd {
		rows[name] = wire.OK
	}
	for name, want := range rows {
		r := c.lookup(root, name)
		if r.status != want || r.dir == nil {
			t.Errorf("name %.20q of %d bytes: status %d, want %d; directory's attributes: %v", name, len(name), r.status, want, r.dir != nil)
		}
	}
}

// LOOKUP needs the right to search the directory; ACCES with its attributes
// otherwise. Whoever may only list it cannot look anything up.
func TestLookupPermission(t *testing.T) {
	needRoot(t)
	c := dial(t, sharedServer(t))
	root := c.mount(treePath("pub"))
	other := c.as(wire.Sys(owner, owner))
	for _, name := range []string{"closed", "listonly"} {
		for _, below := range []string{"below", ".", ".."} {
			r := other.lookup(c.find(root, name), below)
			if r.status != wire.ErrAcces || r.dir == nil || r.dir.Type != wire.Dir {
				t.Errorf("LOOKUP %q in %s: status %d, want NFS3ERR_ACCES with attributes", below, name, r.status)
			}
		}
	}
	if r := c.lookup(c.find(root, "closed"), "below"); r.status != wire.OK {
		t.Errorf("root under no_root_squash: status %d", r.status)
	}
}

// Row "fsid": a file system mounted inside an export is not passed off as part
// of it, neither by LOOKUP nor by READDIRPLUS. What it covers may be shown, as by
// Linux.
func TestMountInsideExport(t *testing.T) {
	needRoot(t)
	s := sharedServer(t)
	point := treePath("pub", "mounted")
	must(t, os.Mkdir(point, 0o755))
	t.Cleanup(func() { os.Remove(point) })
	c := dial(t, s)
	root := c.mount(treePath("pub"))
	time.Sleep(200 * time.Millisecond) // old enough to be remembered
	covered := c.find(root, "mounted")
	c.find(root, "mounted")
	mountTmpfs(t, point)
	if status, _ := c.getattr(covered); status != wire.OK {
		t.Errorf("the directory under the mount, by its handle: status %d", status)
	}
	fsid, mounted := c.attrOf(root).FSID, inode(t, point)
	if r := c.lookup(root, "mounted"); r.status == wire.OK && !slices.Equal(r.fh, covered) && r.attr.FSID == fsid {
		t.Errorf("LOOKUP enters another file system, which has the export's fsid %x", fsid)
	}
	for _, e := range c.readdirplus(root, 0, 60000, 60000).entries {
		if e.Name == "mounted" && e.Attr != nil && e.Attr.FSID == fsid && e.Attr.FileID == mounted {
			t.Error("READDIRPLUS shows the mounted root as part of the export")
		}
	}
}

func inode(t *testing.T, path string) uint64 {
	t.Helper()
	var st syscall.Stat_t
	must(t, syscall.Stat(path, &st))
	return st.Ino
}

// LOOKUP says what is there now, whatever it found under that name before: after
// a file has been replaced, removed, made again or hidden behind a mode.
func TestLookupSeesChanges(t *testing.T) {
	needRoot(t)
	c := dial(t, sharedServer(t))
	dir := value(os.MkdirTemp(treePath("pub"), "changes-"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o755))
	fh := c.mount(dir)
	stranger := c.as(wire.Sys(2000, 2000))
	name, other, away := filepath.Join(dir, "name"), filepath.Join(dir, "other"), filepath.Join(dir, "away")
	check := func(what string, want uint32) {
		t.Helper()
		for range 3 { // the second and third may be remembered
			r := stranger.lookup(fh, "name")
			if r.status != want {
				t.Fatalf("%s: status %d, want %d", what, r.status, want)
			}
			if want == wire.OK && (r.attr.FileID != inode(t, name) || c.attrOf(r.fh).FileID != inode(t, name)) {
				t.Fatalf("%s: another file", what)
			}
		}
	}
	for i := range 60 {
		if i%20 == 0 { // let the last change become old
			time.Sleep(250 * time.Millisecond)
		}
		if i == 0 {
			check("at first", wire.ErrNoent)
			must(t, os.WriteFile(name, nil, 0o644))
			time.Sleep(250 * time.Millisecond)
		}
		check("there", wire.OK)
		must(t, os.Rename(name, away)) // the file lives on under another name
		check("renamed away", wire.ErrNoent)
		must(t, os.WriteFile(name, nil, 0o644))
		check("another in its place", wire.OK)
		must(t, os.WriteFile(other, nil, 0o644))
		must(t, os.Rename(other, name))
		check("replaced", wire.OK)
		must(t, os.Remove(name))
		check("removed", wire.ErrNoent)
		must(t, os.WriteFile(name, nil, 0o644))
		check("made again", wire.OK)
		must(t, os.Chmod(dir, 0o744))
		check("in a directory that may not be searched", wire.ErrAcces)
		must(t, os.Chmod(dir, 0o755))
		check("that may be searched again", wire.OK)
	}
}

// mountTmpfs mounts a file system of its own at a directory.
func mountTmpfs(t testing.TB, dir string) {
	t.Helper()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=0755"); err != nil {
		skip(t, "tmpfs cannot be mounted: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
}
