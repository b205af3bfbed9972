package protocol

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"sluice/tests/protocol/wire"
)

func makeDir(pattern string) (string, error) {
	dir, err := os.MkdirTemp(scratch, pattern)
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	return dir, err
}

// Row "handles": length 0 or over 64 is GARBAGE_ARGS; malformed is BADHANDLE;
// at most 56 bytes (VMware) are given out.
func TestHandleLengths(t *testing.T) {
	c := dial(t, sharedServer(t))
	root := c.mount(treePath("pub"))
	for _, fh := range [][]byte{nil, make([]byte, 65), make([]byte, 400)} {
		r := value(c.conn.Call(wire.NewCall(wire.NFS, 3, wire.Getattr, fhArgs(fh))))(t)
		if r.Stat != wire.GarbageArgs {
			t.Errorf("handle of %d bytes: %+v, want GARBAGE_ARGS", len(fh), r)
		}
	}
	for n := 1; n <= 64; n++ {
		if status, _ := c.getattr(make([]byte, n)); status != wire.ErrBadhandle {
			t.Errorf("handle of %d zero bytes: status %d, want NFS3ERR_BADHANDLE", n, status)
		}
	}
	for n := 1; n < len(root); n++ {
		if status, _ := c.getattr(root[:n]); status != wire.ErrBadhandle && status != wire.ErrStale {
			t.Errorf("first %d bytes of a handle: status %d", n, status)
		}
	}
	for _, names := range [][]string{nil, {"hello"}, {"dir", "sub", "deep"}} {
		if fh := c.find(root, names...); len(fh) > 56 {
			t.Errorf("%v: handle of %d bytes", names, len(fh))
		}
	}
}

// A handle with any bit changed is not taken, whether the object is in the cache
// of open files or not.
func TestHandleBits(t *testing.T) {
	c := dial(t, sharedServer(t))
	root := c.mount(treePath("pub"))
	for _, good := range [][]byte{root, c.find(root, "hello"), c.find(root, "dir", "sub", "deep")} {
		for bit := range 8 * len(good) {
			fh := slices.Clone(good)
			fh[bit/8] ^= 1 << (bit % 8)
			if status, _ := c.getattr(fh); status != wire.ErrBadhandle && status != wire.ErrStale {
				t.Fatalf("bit %d changed: status %d, want NFS3ERR_BADHANDLE or NFS3ERR_STALE", bit, status)
			}
		}
		if status, _ := c.getattr(append(slices.Clone(good), 0)); status != wire.ErrBadhandle && status != wire.ErrStale {
			t.Fatalf("a byte appended: status %d", status)
		}
		if status, _ := c.getattr(good); status != wire.OK {
			t.Fatalf("the good handle: status %d", status)
		}
	}
}

// Handles of a server with another key do not open anything; one that shares the
// key and the fsid takes them.
func TestHandleKeys(t *testing.T) {
	must(t, makeTree())
	exports := treePath("pub") + " *(ro,insecure,no_root_squash,fsid=3,no_subtree_check)\n"
	first, second := startServer(t, exports), startServer(t, exports)
	c, other := dial(t, first), dial(t, second)
	fh := c.find(c.mount(treePath("pub")), "hello")
	if status, _ := other.getattr(fh); status != wire.ErrBadhandle {
		t.Errorf("a handle signed with another key: status %d, want NFS3ERR_BADHANDLE", status)
	}
	twin := newServer(t, exports)
	must(t, os.WriteFile(filepath.Join(twin.state, "handle.key"), value(os.ReadFile(filepath.Join(first.state, "handle.key")))(t), 0o600))
	must(t, twin.start("127.0.0.1:0"))
	t.Cleanup(func() { twin.stopChecked(t) })
	tc := dial(t, twin)
	if !slices.Equal(tc.find(tc.mount(treePath("pub")), "hello"), fh) {
		t.Error("two servers with one key and fsid make different handles")
	}
	if status, _ := tc.getattr(fh); status != wire.OK {
		t.Errorf("a server with the same key: status %d", status)
	}
}

// Row "no longer exported": STALE once the export has gone, good again when it
// is back. A client that the export is not for sees STALE too.
func TestHandleExportGone(t *testing.T) {
	must(t, makeTree())
	line := func(dir, client string) string {
		return treePath(dir) + " " + client + "(ro,insecure,no_subtree_check)\n"
	}
	s := startServer(t, line("pub", "*")+line("squash", "*"))
	c := dial(t, s)
	fh := c.find(c.mount(treePath("pub")), "hello")
	for _, row := range []struct {
		what, exports string
		want          uint32
	}{
		{"the export gone", line("squash", "*"), wire.ErrStale},
		{"the export back", line("pub", "*"), wire.OK},
		{"exported to others", line("pub", "192.0.2.1"), wire.ErrStale},
		{"exported to this client", line("pub", "127.0.0.1"), wire.OK},
	} {
		s.reload(t, row.exports)
		if status, _ := c.getattr(fh); status != row.want {
			t.Errorf("%s: status %d, want %d", row.what, status, row.want)
		}
		if r := c.read(fh, 0, 100); r.status != row.want {
			t.Errorf("%s: READ status %d, want %d", row.what, r.status, row.want)
		}
	}
}

// Row "handles across a server restart, a rename": still good, and the same
// object; the server is killed, not asked to stop.
func TestHandleSurvives(t *testing.T) {
	dir := value(makeDir("survive-"))(t)
	for _, d := range []string{"a", "b/c"} {
		must(t, os.MkdirAll(filepath.Join(dir, d), 0o755))
	}
	path := filepath.Join(dir, "a/file")
	must(t, os.WriteFile(path, []byte("content"), 0o644))
	s := startServer(t, dir+" *(ro,insecure,no_root_squash,no_subtree_check)\n")
	c := dial(t, s)
	root := c.mount(dir)
	fh, parent := c.find(root, "a", "file"), c.find(root, "a")
	before := c.attrOf(fh)
	check := func(what string) {
		t.Helper()
		c := dial(t, s)
		if status, a := c.getattr(fh); status != wire.OK || a.FileID != before.FileID || a.FSID != before.FSID {
			t.Errorf("%s: status %d", what, status)
		}
		if r := c.read(fh, 0, 100); string(r.data) != "content" || !r.eof {
			t.Errorf("%s: READ status %d %q", what, r.status, r.data)
		}
		if got := c.mount(dir); !slices.Equal(got, root) {
			t.Errorf("%s: MNT gives another handle", what)
		}
	}
	check("at first")
	s.restart(t)
	check("after a restart")
	must(t, os.Rename(path, filepath.Join(dir, "a/renamed")))
	check("after a rename")
	must(t, os.Rename(filepath.Join(dir, "a/renamed"), filepath.Join(dir, "b/c/moved")))
	check("after a move")
	s.restart(t)
	check("after a move and a restart")
	must(t, os.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "b/renamed-dir")))
	c = dial(t, s)
	if status, _ := c.getattr(parent); status != wire.OK {
		t.Errorf("a directory moved: status %d", status)
	}
}

// Row "deleted": STALE at once although the server may have the file open, and
// after a restart; a new file of the same name, and perhaps the same inode, is
// another one.
func TestHandleDeleted(t *testing.T) {
	dir := value(makeDir("deleted-"))(t)
	path := filepath.Join(dir, "file")
	s := startServer(t, dir+" *(ro,insecure,no_root_squash,no_subtree_check)\n")
	c := dial(t, s)
	root := c.mount(dir)
	for range 20 {
		must(t, os.WriteFile(path, make([]byte, 100_000), 0o644))
		fh := c.find(root, "file")
		if r := c.read(fh, 0, 100_000); r.status != wire.OK {
			t.Fatalf("READ: status %d", r.status)
		}
		must(t, os.Remove(path))
		must(t, os.WriteFile(path, []byte("another"), 0o644)) // ext4 reuses the inode
		if r := c.read(fh, 0, 10); r.status != wire.ErrStale || r.attr != nil {
			t.Fatalf("READ of a deleted file: status %d %q, want NFS3ERR_STALE", r.status, r.data)
		}
		if status, _ := c.getattr(fh); status != wire.ErrStale {
			t.Fatalf("GETATTR of a deleted file: status %d, want NFS3ERR_STALE", status)
		}
	}
	must(t, os.Mkdir(filepath.Join(dir, "d"), 0o755))
	fh := c.find(root, "d")
	must(t, os.Remove(filepath.Join(dir, "d")))
	for _, name := range []string{".", "x"} {
		if r := c.lookup(fh, name); r.status != wire.ErrStale {
			t.Errorf("LOOKUP %q in a deleted directory: status %d, want NFS3ERR_STALE", name, r.status)
		}
	}
	s.restart(t)
	if status, _ := dial(t, s).getattr(fh); status != wire.ErrStale {
		t.Errorf("GETATTR of a deleted directory after a restart: status %d, want NFS3ERR_STALE", status)
	}
}

// A handle that outlives one of its file's names is good, one that outlives the
// last is not.
func TestHandleHardLink(t *testing.T) {
	dir := value(makeDir("hard-"))(t)
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	must(t, os.WriteFile(a, []byte("x"), 0o644))
	must(t, os.Link(a, b))
	s := startServer(t, dir+" *(ro,insecure,no_root_squash,no_subtree_check)\n")
	c := dial(t, s)
	fh := c.find(c.mount(dir), "a")
	must(t, os.Remove(a))
	if status, at := c.getattr(fh); status != wire.OK || at.Nlink != 1 {
		t.Errorf("one name left: status %d, nlink %d", status, at.Nlink)
	}
	must(t, os.Remove(b))
	if status, _ := c.getattr(fh); status != wire.ErrStale {
		t.Errorf("no name left: status %d, want NFS3ERR_STALE", status)
	}
}
