package nfsd

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// A hint comes back as it was made, as deep as it may be; cut anywhere it is
// refused; and it fits a handle.
func TestPathHint(t *testing.T) {
	for _, depth := range []uint8{0, 1, 2, maxHint - 1, maxHint, maxHint + 1, 255} {
		h := pathHint{ino: 0x1122334455667788, gen: 0x99aabbcc, depth: depth}
		for i := range min(int(depth), maxHint) {
			h.way[i] = byte(i + 1)
		}
		b := h.encode(nil)
		if len(b) > maxBody {
			t.Errorf("depth %d: %d bytes, a handle has room for %d", depth, len(b), maxBody)
		}
		if got, ok := parseHint(b); !ok || got != h {
			t.Errorf("depth %d: %+v, %v", depth, got, ok)
		}
		for n := range b {
			if _, ok := parseHint(b[:n]); ok {
				t.Errorf("depth %d: the first %d of %d bytes are taken", depth, n, len(b))
			}
		}
	}
}

func FuzzPathHint(f *testing.F) {
	seed := pathHint{ino: 7, gen: 8, depth: 2}
	f.Add(seed.encode(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, ok := parseHint(b)
		if ok && !bytes.HasPrefix(b, h.encode(nil)) {
			t.Fatalf("% x is taken for % x", b, h.encode(nil))
		}
	})
}

// pathVolume is a volume without kernel handles.
func pathVolume(t *testing.T, dir string) (*Server, *volume) {
	t.Helper()
	s := newService(t, t.TempDir(), exporting(t, "ro", dir))
	v := *s.shares.Load().byPath[dir].vol
	v.kernel = false
	var st unix.Stat_t
	top, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(top)
	must(t, unix.Fstat(top, &st))
	root, err := s.encodeHandle(&v, top, nil, &st, nil)
	must(t, err)
	v.root = root
	return s, &v
}

// hintOf makes the handle of a path below a volume, going down as LOOKUP does.
func hintOf(t *testing.T, s *Server, v *volume, names ...string) []byte {
	t.Helper()
	fh, at := v.root, v.path
	for _, name := range names {
		at = filepath.Join(at, name)
		fd, err := unix.Open(at, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		must(t, err)
		var st unix.Stat_t
		must(t, unix.Fstat(fd, &st))
		fh, err = s.encodeHandle(v, fd, nil, &st, bodyOf(fh))
		must(t, err)
		unix.Close(fd)
	}
	return fh
}

// A hint finds its object again: the root, at the top, deeper than the hint
// reaches, after renames, after moves; and says STALE when it has gone.
func TestOpenByPath(t *testing.T) {
	dir := t.TempDir()
	var deep []string
	for i := range maxHint + 5 {
		deep = append(deep, string(rune('a'+i%26)))
	}
	must(t, os.MkdirAll(filepath.Join(append([]string{dir}, deep...)...), 0o755))
	deepFile := append(slices.Clone(deep), "file")
	for _, names := range [][]string{{"top"}, {"a", "second"}, {"a", "b", "third"}, deepFile} {
		must(t, os.WriteFile(filepath.Join(append([]string{dir}, names...)...), nil, 0o644))
	}
	s, v := pathVolume(t, dir)
	w := &worker{srv: s}
	check := func(what string, fh []byte, want nfsstat3, path ...string) {
		t.Helper()
		fd, st := w.openByPath(v, bodyOf(fh))
		if st != want {
			t.Errorf("%s: status %d, want %d", what, st, want)
		}
		if st != nfs3OK {
			return
		}
		defer unix.Close(fd)
		var got, there unix.Stat_t
		must(t, unix.Fstat(fd, &got))
		must(t, unix.Lstat(filepath.Join(append([]string{dir}, path...)...), &there))
		if got.Ino != there.Ino || got.Dev != there.Dev {
			t.Errorf("%s: another object", what)
		}
	}
	check("the root", v.root, nfs3OK)
	check("in the root", hintOf(t, s, v, "top"), nfs3OK, "top")
	check("a directory", hintOf(t, s, v, "a", "b"), nfs3OK, "a", "b")
	check("deeper than the hint", hintOf(t, s, v, deepFile...), nfs3OK, deepFile...)
	third := hintOf(t, s, v, "a", "b", "third")
	must(t, os.Rename(filepath.Join(dir, "a/b/third"), filepath.Join(dir, "a/b/renamed")))
	check("renamed", third, nfs3OK, "a", "b", "renamed")
	must(t, os.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "z")))
	check("its directory renamed", third, nfs3OK, "z", "b", "renamed")
	must(t, os.Rename(filepath.Join(dir, "z/b/renamed"), filepath.Join(dir, "moved")))
	check("moved", third, nfs3OK, "moved")
	must(t, os.Remove(filepath.Join(dir, "moved")))
	check("removed", third, nfs3ErrStale)
	check("a hint that is none", handle{body: []byte{1}}.append(nil, s.key), nfs3ErrBadhandle)
}

// Another file with the inode number of a removed one is another file, where the
// file system tells when an inode was made.
func TestOpenByPathGeneration(t *testing.T) {
	dir := t.TempDir()
	s, v := pathVolume(t, dir)
	w := &worker{srv: s}
	path := filepath.Join(dir, "file")
	must(t, os.WriteFile(path, nil, 0o644))
	fh := hintOf(t, s, v, "file")
	hint, _ := parseHint(bodyOf(fh))
	if hint.gen == 0 {
		t.Skip("the file system does not tell when an inode was made")
	}
	hint.gen++
	changed := handle{kind: kindPath, volume: v.id, body: hint.encode(nil)}.append(nil, s.key)
	if _, st := w.openByPath(v, bodyOf(changed)); st != nfs3ErrStale {
		t.Errorf("another generation of the inode: status %d, want NFS3ERR_STALE", st)
	}
}
