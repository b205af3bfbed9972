package protocol

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sluice/tests/protocol/wire"
)

func itoa(n int) string { return strconv.Itoa(n) }

// unprivileged starts a server as nobody, without any capability.
func unprivileged(t *testing.T, exports string) *server {
	t.Helper()
	needRoot(t)
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		skip(t, "setpriv is not installed")
	}
	s := newServer(t, exports)
	must(t, os.Chown(s.state, 65534, 65534))
	s.prefix = []string{setpriv, "--reuid", "nobody", "--regid", "nogroup", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"}
	must(t, s.start("127.0.0.1:0"))
	t.Cleanup(func() { s.stopChecked(t) })
	return s
}

// Without CAP_DAC_READ_SEARCH the kernel's handles cannot be opened; the server's
// own are as good: after a restart, a rename in the directory and a move to
// another one. The log says that the server is not privileged.
func TestFallbackHandles(t *testing.T) {
	dir := value(makeDir("fallback-"))(t)
	for _, d := range []string{"a/deep/er", "b"} {
		must(t, os.MkdirAll(filepath.Join(dir, d), 0o755))
	}
	file := filepath.Join(dir, "a/deep/er/file")
	must(t, os.WriteFile(file, []byte("content"), 0o644))
	must(t, os.WriteFile(filepath.Join(dir, "top"), []byte("top"), 0o644))
	must(t, os.WriteFile(filepath.Join(dir, "secret"), []byte("secret"), 0o600))
	s := unprivileged(t, dir+" *(ro,insecure,no_subtree_check)\n")
	if log := s.log.String(); !strings.Contains(log, "not privileged") || !strings.Contains(log, "CAP_DAC_READ_SEARCH") {
		t.Errorf("the log does not say that the server is not privileged:\n%s", log)
	}
	c := dial(t, s)
	root := c.mount(dir)
	fh := c.find(root, "a", "deep", "er", "file")
	before := c.attrOf(fh)
	check := func(what string) {
		t.Helper()
		c := dial(t, s)
		if r := c.read(fh, 0, 100); r.status != wire.OK || string(r.data) != "content" || r.attr.FileID != before.FileID || r.attr.FSID != before.FSID {
			t.Errorf("%s: status %d %q", what, r.status, r.data)
		}
		if got := c.mount(dir); !slices.Equal(got, root) {
			t.Errorf("%s: MNT gives another handle", what)
		}
	}
	check("at first")
	if r := c.read(c.find(root, "secret"), 0, 10); r.status != wire.ErrAcces {
		t.Errorf("what the server may not read: status %d, want NFS3ERR_ACCES", r.status)
	}
	s.restart(t)
	check("after a restart")
	must(t, os.Rename(file, filepath.Join(dir, "a/deep/er/renamed")))
	must(t, os.Rename(filepath.Join(dir, "a/deep"), filepath.Join(dir, "a/renamed")))
	s.restart(t)
	check("after renames in their directories and a restart")
	must(t, os.Rename(filepath.Join(dir, "a/renamed/er/renamed"), filepath.Join(dir, "b/moved")))
	s.restart(t)
	check("after a move and a restart")
	must(t, os.Remove(filepath.Join(dir, "b/moved")))
	if r := dial(t, s).read(fh, 0, 100); r.status != wire.ErrStale {
		t.Errorf("after removal: status %d, want NFS3ERR_STALE", r.status)
	}
}

// LOOKUP, ".." and READDIRPLUS work and agree with fallback handles too.
func TestFallbackLookup(t *testing.T) {
	dir := value(makeDir("fallback-"))(t)
	must(t, os.MkdirAll(filepath.Join(dir, "a/b/c/d"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "a/b/c/d/file"), []byte("content"), 0o644))
	s := unprivileged(t, dir+" *(ro,insecure,no_subtree_check)\n")
	c := dial(t, s)
	at := c.mount(dir)
	way := [][]byte{at}
	for _, name := range []string{"a", "b", "c", "d"} {
		for _, e := range c.readdirplus(at, 0, most, most).entries {
			if e.Name == name && !slices.Equal(e.FH, c.find(at, name)) {
				t.Errorf("%s: READDIRPLUS and LOOKUP give different handles", name)
			}
		}
		at = c.find(at, name)
		way = append(way, at)
	}
	for i := len(way) - 1; i > 0; i-- {
		r := c.lookup(way[i], "..")
		if r.status != wire.OK || r.attr.FileID != c.attrOf(way[i-1]).FileID {
			t.Fatalf(".. at depth %d: status %d", i, r.status)
		}
		if !slices.Equal(r.fh, way[i-1]) {
			t.Errorf(".. at depth %d: a handle other than the one on the way down", i)
		}
	}
	if r := c.lookup(way[0], ".."); r.status != wire.OK || !slices.Equal(r.fh, way[0]) {
		t.Errorf(".. of the root: status %d", r.status)
	}
	s.restart(t)
	c = dial(t, s)
	if r := c.read(c.find(way[3], "d", "file"), 0, 100); string(r.data) != "content" {
		t.Errorf("after a restart: status %d", r.status)
	}
}
