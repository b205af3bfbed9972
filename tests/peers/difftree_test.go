package peers

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/tests/guest"
)

// diffTree is the directory that both servers serve.
type diffTree struct {
	dir   string
	names map[uint64]string // from inode number to path below dir; "/" is dir itself
	data  map[string][]byte // contents of the files that are read
}

func newDiffTree(t *testing.T) *diffTree {
	t.Helper()
	dir, err := os.MkdirTemp(scratch, "diff-")
	must(t, err)
	b := &treeBuilder{dir: dir, random: newRandom(3)}
	for _, d := range []string{"dir", "dir/sub", "empty", "open-0711", "shut-0700", "big"} {
		b.mkdir(d)
	}
	for name, size := range map[string]int{"f0": 0, "f5": 5, "f4096": 4096, "f1m1": 1<<20 + 1, "dir/a": 1, "dir/b": 2, "dir/\xff odd": 3,
		"open-0711/in": 4, "shut-0700/in": 5, "alice-0600": 6, "alice-0000": 7, "exec-0711": 8, strings.Repeat("n", 255): 9, "huge": 10} {
		b.file(name, size)
	}
	for i := range 300 {
		b.file(fmt.Sprintf("big/entry-%03d", i), 0)
	}
	b.do(os.Symlink("f5", b.path("link")))
	b.do(os.Symlink("nowhere", b.path("dangling")))
	b.do(os.Link(b.path("f5"), b.path("dir/hard")))
	b.do(unix.Mkfifo(b.path("fifo"), 0o644))
	b.do(unix.Mknod(b.path("char"), unix.S_IFCHR|0o644, int(unix.Mkdev(1, 3))))
	b.do(os.Truncate(b.path("huge"), 1<<40))
	for name, mode := range map[string]uint32{"open-0711": 0o711, "shut-0700": 0o700, "alice-0600": 0o600, "alice-0000": 0, "exec-0711": 0o711, ".": 0o755} {
		if strings.HasPrefix(name, "alice") {
			b.do(os.Chown(b.path(name), 1001, 1001))
		}
		b.do(unix.Chmod(b.path(name), mode))
	}
	must(t, b.err)
	tree := &diffTree{dir: dir}
	must(t, tree.index())
	return tree
}

// index notes the inode numbers. Of hard links, the first in order counts.
func (tree *diffTree) index() error {
	tree.names, tree.data = map[uint64]string{}, map[string][]byte{}
	return filepath.WalkDir(tree.dir, func(path string, e fs.DirEntry, err error) error {
		var st unix.Stat_t
		if err == nil {
			err = unix.Lstat(path, &st)
		}
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(path, tree.dir)
		if name == "" {
			name = "/"
		}
		if _, ok := tree.names[st.Ino]; !ok {
			tree.names[st.Ino] = strings.TrimPrefix(name, "/")
		}
		if e.Type().IsRegular() && st.Size < 1<<30 {
			tree.data[name[1:]], err = os.ReadFile(path)
		}
		return err
	})
}

// side is one of the two servers and what was learnt about it.
type side struct {
	t         *testing.T
	ns        *guest.Namespace
	tree      *diffTree
	nfs       string // addresses
	mount     string
	fsid      uint64
	fsidKnown bool
	handles   map[string][]byte
}

func newSide(t *testing.T, ns *guest.Namespace, tree *diffTree, nfsPort, mountPort string) *side {
	t.Helper()
	s := &side{t: t, ns: ns, tree: tree, nfs: "127.0.0.1:" + nfsPort, mount: "127.0.0.1:" + mountPort}
	r, err := s.call(s.mount, progMount, 3, 1, rootCred, new(enc).str(tree.dir).b)
	must(t, err)
	d := &dec{b: r.body}
	if status := d.u32(); r.denied || r.accept != 0 || status != 0 {
		t.Fatalf("%s: MNT: %+v", s.mount, r)
	}
	s.handles = map[string][]byte{"": d.opaque()}
	must(t, d.err)
	return s
}

// call makes one call on a connection of its own: some calls end it.
func (s *side) call(addr string, prog, vers, proc uint32, c cred, args []byte) (*rpcReply, error) {
	conn, err := s.ns.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return (&wireClient{conn: conn, xid: 7}).call(prog, vers, proc, c, args)
}

// fh returns the handle of a path below the tree.
func (s *side) fh(path string) []byte {
	if fh, ok := s.handles[path]; ok {
		return fh
	}
	dir, name := filepath.Split(path)
	r, err := s.call(s.nfs, progNFS, 3, 3, rootCred, new(enc).opaque(s.fh(strings.TrimSuffix(dir, "/"))).str(name).b)
	must(s.t, err)
	d := &dec{b: r.body}
	if status := d.u32(); status != 0 {
		s.t.Fatalf("%s: LOOKUP %s: %s", s.nfs, path, statusName(status))
	}
	s.handles[path] = d.opaque()
	must(s.t, d.err)
	return s.handles[path]
}

// handleName asks GETATTR which object a handle is.
func (s *side) handleName(fh []byte) string {
	r, err := s.call(s.nfs, progNFS, 3, 1, rootCred, new(enc).opaque(fh).b)
	if err != nil {
		return err.Error()
	}
	d := &dec{b: r.body}
	if status := d.u32(); status != 0 {
		return statusName(status)
	}
	d.take(5*4 + 3*8 + 8)
	return s.pathOf(d.u64())
}

func (s *side) pathOf(fileid uint64) string {
	path, ok := s.tree.names[fileid]
	switch {
	case !ok:
		return fmt.Sprintf("fileid %d", fileid)
	case path == "":
		return "/"
	}
	return path
}

func (s *side) abs(path string) string { return filepath.Join(s.tree.dir, path) }

// firstFsid returns the fsid that was seen first: all must be equal.
func (s *side) firstFsid(fsid uint64) uint64 {
	if !s.fsidKnown {
		s.fsid, s.fsidKnown = fsid, true
	}
	return s.fsid
}

// holds reports whether data is what the file holds at offset.
func (s *side) holds(path string, offset uint64, data []byte) bool {
	want, ok := s.tree.data[path]
	if !ok || offset > uint64(len(want)) {
		return len(bytes.Trim(data, "\x00")) == 0 // holes only
	}
	return bytes.HasPrefix(want[offset:], data)
}
