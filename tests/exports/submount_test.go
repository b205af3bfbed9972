package exports

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"sluice/tests/protocol/wire"
)

// tree makes a directory for a test, with directories and files in it: a name
// that ends in "/" is a directory, a file contains its own name.
func tree(t testing.TB, names ...string) string {
	t.Helper()
	dir := value(os.MkdirTemp(scratch, "tree-"))(t)
	must(t, os.Chmod(dir, 0o755))
	plant(t, dir, names...)
	return dir
}

func plant(t testing.TB, dir string, names ...string) {
	t.Helper()
	for _, n := range names {
		p := filepath.Join(dir, n)
		if n[len(n)-1] == '/' {
			must(t, os.MkdirAll(p, 0o755))
			continue
		}
		must(t, os.MkdirAll(filepath.Dir(p), 0o755))
		must(t, os.WriteFile(p, []byte(n), 0o644))
	}
}

// mountFS mounts a new file system, with files in it, until the test ends.
func mountFS(t testing.TB, at string, names ...string) {
	t.Helper()
	must(t, syscall.Mount("test", at, "tmpfs", 0, "mode=755"))
	t.Cleanup(func() { _ = syscall.Unmount(at, syscall.MNT_DETACH) })
	plant(t, at, names...)
}

func unmount(t testing.TB, at string) {
	t.Helper()
	must(t, syscall.Unmount(at, 0))
}

const (
	inside = "10.77.0.1" // a client
	other  = "10.77.0.2" // another
)

// see returns the names in a directory.
func (c *client) see(dir []byte) (names []string) {
	c.t.Helper()
	status, entries := c.list(dir, false)
	if status != wire.OK {
		c.t.Fatalf("READDIR: status %d", status)
	}
	for n := range entries {
		if n != "." && n != ".." {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	return names
}

func (c *client) wantSee(dir []byte, want, what string) {
	c.t.Helper()
	if got := fmt.Sprint(c.see(dir)); got != "["+want+"]" {
		c.t.Errorf("%s: the directory shows %s, want %s", what, got, want)
	}
}

// exports(5), nohide: "Normally, if a server exports two filesystems one of which
// is mounted on the other, then the client will have to mount both filesystems
// explicitly ... If it just mounts the parent, it will see an empty directory at
// the place where the other filesystem is mounted." crossmnt: the parent's option
// makes the client see it.
func TestHide(t *testing.T) {
	for _, row := range []struct{ exports, want string }{
		{"%[1]s *(ro)", "hidden"},
		{"%[1]s *(ro)\n%[1]s/m *(ro)", "hidden"},
		{"%[1]s *(ro,nohide)\n%[1]s/m *(ro)", "hidden"},
		{"%[1]s *(ro)\n%[1]s/m *(ro,nohide)", "shown"},
		{"%[1]s *(ro)\n%[1]s/m " + other + "(ro,nohide)", "hidden"},
		{"%[1]s *(ro)\n%[1]s/m " + inside + "(ro,nohide)", "shown"},
		{"%[1]s *(ro,crossmnt)", "shown"},
		{"%[1]s *(ro,crossmnt,nocrossmnt)", "hidden"},
		{"%[1]s *(ro) " + inside + "(ro,crossmnt)", "shown"},
		{"%[1]s *(ro,crossmnt) " + inside + "(ro)", "hidden"},
		{"%[1]s *(ro,crossmnt)\n%[1]s/m " + other + "(ro)", "shown"},
		{"%[1]s *(ro,crossmnt)\n%[1]s/m *(ro)", "shown"},
	} {
		t.Run(row.exports, func(t *testing.T) {
			dir := tree(t, "m/hidden", "file")
			mountFS(t, dir+"/m", "shown")
			s := startServer(t, fmt.Sprintf(row.exports+"\n", dir))
			c := s.from(inside)
			root := c.mount(dir)
			c.wantSee(c.find(root, "m"), row.want, "at first")
			c.wantSee(c.find(root, "m"), row.want, "from memory")
			if _, list := c.list(root, true); list["m"].FH != nil && row.want == "shown" {
				t.Error("READDIRPLUS gives a handle of what is hidden")
			}
		})
	}
}

// A sub-mount is a file system of its own for the client: its fsid differs, its
// ".." leads back, its handles last over a restart of the server.
func TestSubmount(t *testing.T) {
	dir := tree(t, "a/m/hidden", "file")
	mountFS(t, dir+"/a/m", "deep/shown", "n/hidden")
	mountFS(t, dir+"/a/m/n", "deepest")
	s := startServer(t, dir+" *(ro,crossmnt)\n")
	c := s.from(inside)
	root := c.mount(dir)
	a := c.find(root, "a")
	m := c.find(a, "m")
	n := c.find(m, "n")
	shown := c.find(m, "deep", "shown")
	fsids := map[uint64]bool{}
	for _, fh := range [][]byte{root, m, n} {
		_, attr := c.getattr(fh)
		fsids[attr.FSID] = true
	}
	if len(fsids) != 3 {
		t.Errorf("three file systems have the fsids %v", fsids)
	}
	check := func(when string) {
		t.Helper()
		if got := c.find(m, ".."); !bytes.Equal(got, a) {
			t.Errorf("%s: .. of the sub-mount does not lead back", when)
		}
		if got := c.find(n, ".."); !bytes.Equal(got, m) {
			t.Errorf("%s: .. of the mount in the sub-mount does not lead back", when)
		}
		if st, data := c.read(shown); st != wire.OK || data != "deep/shown" {
			t.Errorf("%s: READ in the sub-mount: status %d, %q", when, st, data)
		}
		if st, data := c.read(c.find(n, "deepest")); st != wire.OK || data != "deepest" {
			t.Errorf("%s: READ in the inner sub-mount: status %d, %q", when, st, data)
		}
	}
	check("at first")
	// Each can be mounted by itself.
	for path, want := range map[string][]byte{dir + "/a/m": m, dir + "/a/m/n": n, dir + "/a/m/deep": c.find(m, "deep")} {
		if got := c.mount(path); !bytes.Equal(got, want) {
			t.Errorf("MNT %s gives another handle than LOOKUP", path)
		}
	}
	s.restart()
	c = s.from(inside)
	check("after a restart")
}

// Mounts that come are seen at the next look-up, and what goes is stale. The
// server keeps neither file system busy.
func TestMountsChange(t *testing.T) {
	dir := tree(t, "m/hidden")
	s := startServer(t, dir+" *(ro,crossmnt)\n")
	c := s.from(inside)
	root := c.mount(dir)
	c.wantSee(c.find(root, "m"), "hidden", "nothing mounted")
	for i := range 5 {
		mountFS(t, dir+"/m", fmt.Sprintf("shown%d", i))
		m := c.find(root, "m")
		c.wantSee(m, fmt.Sprintf("shown%d", i), "mounted")
		unmount(t, dir+"/m")
		c.wantSee(c.find(root, "m"), "hidden", "unmounted")
		if st, _ := c.getattr(m); st != wire.ErrStale {
			t.Errorf("round %d: GETATTR of what was unmounted: status %d, want NFS3ERR_STALE", i, st)
		}
	}
}

// An exported file system that is unmounted is stale, and good again when it is
// back; nothing of the directory under it is shown by its handles.
func TestExportUnmounted(t *testing.T) {
	dir := tree(t, "m/hidden", "image")
	must(t, os.Truncate(dir+"/image", 8<<20))
	runCommand(t, "mkfs.ext4", "-q", "-F", dir+"/image")
	mountImage := func() { runCommand(t, "mount", "-o", "loop", dir+"/image", dir+"/m") }
	mountImage()
	t.Cleanup(func() { _ = syscall.Unmount(dir+"/m", syscall.MNT_DETACH) })
	plant(t, dir+"/m", "sub/file")
	s := startServer(t, dir+"/m *(ro)\n")
	c := s.from(inside)
	fh := c.find(c.mount(dir+"/m"), "sub", "file")
	if st, data := c.read(fh); st != wire.OK || data != "sub/file" {
		t.Fatalf("READ: status %d, %q", st, data)
	}
	unmount(t, dir+"/m")
	s.await(func() bool { st, _ := c.read(fh); return st == wire.ErrStale }, "what was unmounted is not stale")
	mountImage()
	s.await(func() bool { st, _ := c.read(fh); return st == wire.OK }, "what is back is not good again")
}

// Two paths to one directory, as bind mounts make them, are both served.
func TestBindMount(t *testing.T) {
	dir := tree(t, "home/file", "pub/home/")
	must(t, syscall.Mount(dir+"/home", dir+"/pub/home", "", syscall.MS_BIND, ""))
	t.Cleanup(func() { _ = syscall.Unmount(dir+"/pub/home", syscall.MNT_DETACH) })
	s := startServer(t, fmt.Sprintf("%[1]s/home %[2]s(ro)\n%[1]s/pub *(ro)\n%[1]s/pub/home %[3]s(ro,nohide)\n", dir, inside, other))
	c := s.from(inside)
	if st, data := c.read(c.find(c.mount(dir+"/home"), "file")); st != wire.OK || data != "home/file" {
		t.Errorf("the first path: status %d, %q", st, data)
	}
	c = s.from(other)
	if st, _ := c.mnt(dir + "/home"); st != wire.ErrAcces {
		t.Errorf("MNT of the first path by another client: status %d", st)
	}
	if st, data := c.read(c.find(c.mount(dir+"/pub"), "home", "file")); st != wire.OK || data != "home/file" {
		t.Errorf("the second path: status %d, %q", st, data)
	}
}

// Without CAP_SYS_ADMIN the server cannot have mounts of its own. What is hidden
// is then out of reach, and the rest as ever.
func TestUnprivilegedMounts(t *testing.T) {
	if _, err := exec.LookPath("setpriv"); err != nil {
		t.Skip(err)
	}
	dir := tree(t, "plain/m/hidden", "cross/m/hidden", "cross/sub/file", "cross/sub/deep/", "out/")
	mountFS(t, dir+"/plain/m", "shown")
	mountFS(t, dir+"/cross/m", "shown", "n/")
	s := startServer(t, fmt.Sprintf("%[1]s/plain *(ro)\n%[1]s/cross *(ro,crossmnt)\n", dir))
	s.stop()
	cmd := s.command()
	s.run(exec.Command("setpriv", append([]string{"--bounding-set=-sys_admin", "--inh-caps=-sys_admin"}, cmd.Args...)...))
	c := s.from(inside)
	if st, _, _ := c.lookup(c.mount(dir+"/plain"), "m"); st != wire.ErrAcces {
		t.Errorf("LOOKUP of what is hidden: status %d, want NFS3ERR_ACCES", st)
	}
	cross := c.mount(dir + "/cross")
	m := c.find(cross, "m")
	c.wantSee(c.find(m, "n", ".."), "n shown", "the sub-mount")
	if got := c.find(m, ".."); !bytes.Equal(got, cross) {
		t.Error(".. of the sub-mount does not lead back")
	}
	deep := c.find(cross, "sub", "deep")
	if got := c.find(deep, "..", ".."); !bytes.Equal(got, cross) {
		t.Error(".. does not lead to the root")
	}
	checkMovedOut(t, s, c, dir, deep)
	mountFS(t, dir+"/cross/sub", "later")
	c.wantSee(c.find(cross, "sub"), "later", "what was mounted later")
}

// A directory that has been moved out of the export is out of reach by its handle
// too, whatever subtree_check says.
func TestMovedOut(t *testing.T) {
	dir := tree(t, "cross/sub/deep/", "cross/sub/file", "out/")
	s := startServer(t, fmt.Sprintf("%[1]s/cross *(ro)\n", dir))
	c := s.from(inside)
	deep := c.find(c.mount(dir+"/cross"), "sub", "deep")
	checkMovedOut(t, s, c, dir, deep)
}

func checkMovedOut(t *testing.T, s *server, c *client, dir string, deep []byte) {
	t.Helper()
	must(t, os.Rename(dir+"/cross/sub/deep", dir+"/out/deep"))
	defer os.Rename(dir+"/out/deep", dir+"/cross/sub/deep")
	if st, _, _ := c.lookup(deep, ".."); st != wire.ErrStale {
		t.Errorf("LOOKUP of .. in what was moved out: status %d, want NFS3ERR_STALE", st)
	}
	exports := value(os.ReadFile(s.exports))(t)
	s.reload(fmt.Sprintf("%s/out *(ro)\n", dir)) // forgets what is open
	s.reload(string(exports))
	if st, _ := c.getattr(deep); st != wire.ErrStale {
		t.Errorf("GETATTR of what was moved out: status %d, want NFS3ERR_STALE", st)
	}
}

// crossmnt serves no file system that the kernel makes up, as Linux nfsd cannot.
func TestCrossmntNotProc(t *testing.T) {
	dir := tree(t, "proc/hidden", "fs/hidden")
	must(t, syscall.Mount("proc", dir+"/proc", "proc", 0, ""))
	t.Cleanup(func() { _ = syscall.Unmount(dir+"/proc", syscall.MNT_DETACH) })
	mountFS(t, dir+"/fs", "shown")
	s := startServer(t, dir+" *(ro,crossmnt)\n")
	c := s.from(inside)
	root := c.mount(dir)
	c.wantSee(c.find(root, "proc"), "hidden", "/proc")
	c.wantSee(c.find(root, "fs"), "shown", "a tmpfs")
	if st, _ := c.mnt(dir + "/proc"); st != wire.ErrAcces {
		t.Errorf("MNT of /proc: status %d, want MNT3ERR_ACCES", st)
	}
}

// Many file systems below one export: each has its own fsid, and all is closed when
// they go.
func TestManySubmounts(t *testing.T) {
	dir := tree(t)
	s := startServer(t, dir+" *(ro,crossmnt)\n")
	c := s.from(inside)
	root := c.mount(dir)
	const n = 100
	for i := range n {
		name := fmt.Sprint(i)
		must(t, os.Mkdir(filepath.Join(dir, name), 0o755))
		mountFS(t, filepath.Join(dir, name), "in"+name)
	}
	before := s.descriptors()
	fsids := map[uint64]bool{}
	for i := range n {
		fh := c.find(root, fmt.Sprint(i))
		c.wantSee(fh, fmt.Sprintf("in%d", i), "a sub-mount")
		_, a := c.getattr(fh)
		fsids[a.FSID] = true
	}
	if len(fsids) != n {
		t.Errorf("%d file systems have %d fsids", n, len(fsids))
	}
	for i := range n {
		unmount(t, filepath.Join(dir, fmt.Sprint(i)))
	}
	s.await(func() bool { return s.descriptors() <= before }, "descriptors stay open")
}
