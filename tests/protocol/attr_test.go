package protocol

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"sluice/tests/protocol/wire"
)

// Row "error bodies": GETATTR's error is void; the others carry post_op_attr or
// wcc_data even then (RFC 1813 section 3.3). The lengths are exact.
func TestErrorBodies(t *testing.T) {
	c := dial(t, sharedServer(t))
	bad := make([]byte, 32)
	for proc, args := range sampleArgs(bad) {
		want := 8 // status, no attributes
		switch proc {
		case wire.Getattr:
			want = 4
		case wire.Setattr, wire.Write, wire.Create, wire.Mkdir, wire.Symlink, wire.Mknod, wire.Remove, wire.Rmdir, wire.Commit:
			want = 4 + 8 // wcc_data: no pre_op_attr, no post_op_attr
		case wire.Rename:
			want = 4 + 8 + 8
		case wire.Link:
			want = 4 + 4 + 8
		}
		d := c.nfs(proc, args)
		if len(d.B) != want {
			t.Errorf("procedure %d: %d bytes of result, want %d", proc, len(d.B), want)
		}
		if status := d.U32(); status != wire.ErrBadhandle {
			t.Errorf("procedure %d: status %d, want NFS3ERR_BADHANDLE", proc, status)
		}
		for len(d.B) > 0 {
			if d.Bool() {
				t.Errorf("procedure %d: attributes of no object", proc)
			}
		}
	}
}

// GETATTR tells what lstat(2) tells (RFC 1813 sections 2.6 and 3.3.1).
func TestGetattr(t *testing.T) {
	needRoot(t)
	c := dial(t, sharedServer(t))
	root := c.mount(treePath("pub"))
	types := map[uint32]uint32{syscall.S_IFREG: wire.Reg, syscall.S_IFDIR: wire.Dir, syscall.S_IFLNK: wire.Lnk,
		syscall.S_IFIFO: wire.Fifo, syscall.S_IFSOCK: wire.Sock, syscall.S_IFCHR: wire.Chr, syscall.S_IFBLK: wire.Blk}
	var fsid uint64
	for _, name := range []string{"hello", "empty", "big", "dir", "bare", "link", "fifo", "sock", "chr", "blk", "mode000", "program"} {
		var st syscall.Stat_t
		must(t, syscall.Lstat(treePath("pub", name), &st))
		a := c.attrOf(c.find(root, name))
		if fsid == 0 {
			fsid = a.FSID
		}
		want := wire.Attr{Type: types[st.Mode&syscall.S_IFMT], Mode: st.Mode & 0o7777, Nlink: uint32(st.Nlink), UID: st.Uid, GID: st.Gid,
			Size: uint64(st.Size), Used: uint64(st.Blocks) * 512, FSID: fsid, FileID: st.Ino,
			Atime: nfstime(st.Atim), Mtime: nfstime(st.Mtim), Ctime: nfstime(st.Ctim)}
		switch name {
		case "chr":
			want.Major, want.Minor = 1, 5
		case "blk":
			want.Major, want.Minor = 7, 0
		}
		if a != want {
			t.Errorf("%s:\n got %+v\nwant %+v", name, a, want)
		}
	}
}

func nfstime(ts syscall.Timespec) [2]uint32 { return [2]uint32{uint32(ts.Sec), uint32(ts.Nsec)} }

// GETATTR shows a change at once: the server keeps no attributes.
func TestGetattrSeesChanges(t *testing.T) {
	c := dial(t, sharedServer(t))
	path := treePath("pub", "changing")
	must(t, os.WriteFile(path, []byte("1"), 0o644))
	t.Cleanup(func() { os.Remove(path) })
	fh := c.find(c.mount(treePath("pub")), "changing")
	for n := 2; n < 50; n++ {
		must(t, os.WriteFile(path, make([]byte, n), 0o644))
		if a := c.attrOf(fh); a.Size != uint64(n) {
			t.Fatalf("size %d, want %d", a.Size, n)
		}
	}
}

// Row "nlink of a directory": at least 2, or macOS takes it for empty. ext4 says
// 1 for a directory with very many subdirectories, overlayfs and btrfs for all;
// what every file system here has is checked.
func TestDirectoryNlink(t *testing.T) {
	c := dial(t, sharedServer(t))
	root := c.mount(treePath("pub"))
	for _, names := range [][]string{nil, {"dir"}, {"dir", "sub"}, {"bare"}} {
		if a := c.attrOf(c.find(root, names...)); a.Nlink < 2 {
			t.Errorf("%v: nlink %d", names, a.Nlink)
		}
	}
}

// overlayfs reports nlink 1 for merged directories (its ovl_getattr); the client
// must see 2.
func TestDirectoryNlinkOverlay(t *testing.T) {
	needRoot(t)
	base := value(os.MkdirTemp(scratch, "overlay-"))(t)
	for _, d := range []string{"lower/d", "upper/d", "work", "merged"} {
		must(t, os.MkdirAll(filepath.Join(base, d), 0o755))
	}
	merged := filepath.Join(base, "merged")
	opts := "lowerdir=" + base + "/lower,upperdir=" + base + "/upper,workdir=" + base + "/work"
	if err := syscall.Mount("overlay", merged, "overlay", 0, opts); err != nil {
		skip(t, "overlayfs cannot be mounted: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(merged, syscall.MNT_DETACH) })
	var st syscall.Stat_t
	must(t, syscall.Stat(filepath.Join(merged, "d"), &st))
	if st.Nlink != 1 {
		skip(t, "overlayfs says nlink %d here", st.Nlink)
	}
	s := startServer(t, merged+" *(ro,insecure,fsid=5,no_subtree_check)\n")
	c := dial(t, s)
	if a := c.attrOf(c.find(c.mount(merged), "d")); a.Nlink != 2 {
		t.Errorf("nlink %d, want 2", a.Nlink)
	}
}

// Row "READLINK of a non-link": INVAL (section 3.3.5); a link's text comes back
// byte for byte, however long.
func TestReadlink(t *testing.T) {
	c := dial(t, sharedServer(t))
	root := c.mount(treePath("pub"))
	long := make([]byte, 4095) // PATH_MAX with its NUL
	for i := range long {
		long[i] = "abcdefg/"[i%8]
	}
	path := treePath("pub", "longlink")
	must(t, os.Symlink(string(long), path))
	t.Cleanup(func() { os.Remove(path) })
	for name, want := range map[string]string{"link": "hello", "longlink": string(long)} {
		status, a, text := c.readlink(c.find(root, name))
		if status != wire.OK || a == nil || text != want {
			t.Errorf("%s: status %d, %d bytes of text, want %d", name, status, len(text), len(want))
		}
	}
	for _, name := range []string{"hello", "dir"} {
		if status, a, _ := c.readlink(c.find(root, name)); status != wire.ErrInval || a == nil {
			t.Errorf("%s: status %d, attributes %v; want NFS3ERR_INVAL with them", name, status, a != nil)
		}
	}
}
