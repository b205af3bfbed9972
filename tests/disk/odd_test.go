package disk

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"sluice/tests/pattern"
	"sluice/tests/protocol/wire"
)

// Holes of a sparse file read as zeros, beside data that has to come from disk.
func TestSparse(t *testing.T) {
	eachBackend(t, func(t *testing.T, b backend) {
		const size, step = 32 << 20, 3<<20 + 4096
		d := modelled(t)
		dir := makeDir(t, d.Dir())
		s := startServer(t, b, []string{d.Dir()})
		f := file{dir: dir, name: "sparse", seed: 4, size: size}
		w, err := os.Create(f.path())
		must(t, err)
		defer w.Close()
		want := make([]byte, size)
		for off := int64(step); off < size; off += 2 * step {
			must(t, pattern.WriteAt(w, f.seed, off, 512<<10))
			pattern.Fill(want[off:off+512<<10], f.seed, off)
		}
		must(t, w.Truncate(size))
		f.drop(t)
		f.fh = dial(t, s).find(d.Dir(), baseName(dir), f.name)
		readers{conns: 2, depth: 8, check: func(p part, r result) error {
			if r.status != wire.OK || !bytes.Equal(r.data, want[p.off:p.off+int64(p.n)]) {
				return fmt.Errorf("READ at %d: status %d, %d bytes, not those written", p.off, r.status, len(r.data))
			}
			return nil
		}}.read(t, s, shuffled(split(f, 0, size, 128<<10), 8))
	})
}

// fuseFile is a file of a pattern on FUSE, opened with flags.
type fuseFile struct {
	fs.Inode
	seed  uint64
	size  int64
	flags uint32
}

func (f *fuseFile) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode, out.Nlink, out.Size = 0o444, 1, uint64(f.size)
	return 0
}

func (f *fuseFile) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, f.flags, 0
}

func (f *fuseFile) Read(_ context.Context, _ fs.FileHandle, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	dest = dest[:max(0, min(int64(len(dest)), f.size-off))]
	pattern.Fill(dest, f.seed, off)
	return fuse.ReadResultData(dest), 0
}

type fuseRoot struct {
	fs.Inode
	files map[string]*fuseFile
}

func (r *fuseRoot) OnAdd(ctx context.Context) {
	for name, f := range r.files {
		r.AddChild(name, r.NewPersistentInode(ctx, f, fs.StableAttr{Mode: syscall.S_IFREG}), false)
	}
}

// Files on FUSE, with the page cache and past it (direct_io, where neither
// read-ahead nor cachestat mean anything).
func TestFuseFiles(t *testing.T) {
	const size = 9<<20 + 100
	eachBackend(t, func(t *testing.T, b backend) {
		dir := makeDir(t, scratch)
		files := map[string]*fuseFile{
			"cached": {seed: 1, size: size},
			"direct": {seed: 2, size: size, flags: fuse.FOPEN_DIRECT_IO},
		}
		srv, err := fs.Mount(dir, &fuseRoot{files: files}, &fs.Options{
			MountOptions: fuse.MountOptions{AllowOther: true, DirectMountStrict: true, FsName: "patterns"},
		})
		must(t, err)
		t.Cleanup(func() {
			if srv.Unmount() != nil {
				_ = unix.Unmount(dir, unix.MNT_DETACH)
			}
		})
		s := startServer(t, b, []string{dir})
		c := dial(t, s)
		for name, ff := range files {
			f := file{dir: dir, name: name, seed: ff.seed, size: size}
			f.lookUp(c)
			readers{conns: 2, depth: 8}.read(t, s, shuffled(split(f, 0, size, 128<<10), 8))
		}
	})
}

// A file system whose files tell no size and cannot be spliced: /proc. Linux's own
// server does not export it; what matters here is that the server answers, with
// what stat(2) says there is (nothing), and goes on.
func TestProcFiles(t *testing.T) {
	eachBackend(t, func(t *testing.T, b backend) {
		s := startServer(t, b, []string{"/proc/sys/kernel"})
		c := dial(t, s)
		fh := c.find("/proc/sys/kernel", "ostype")
		r := c.read(part{fh: fh, n: 4096})
		if r.status != wire.OK || !slices.Contains([]string{"", "Linux\n"}, string(r.data)) {
			t.Errorf("status %d, %q", r.status, r.data)
		}
		if status, _ := c.getattr(fh); status != wire.OK {
			t.Errorf("GETATTR afterwards: status %d", status)
		}
	})
}

// A server whose memory cgroup is full has no room for what it reads ahead, and
// still sends what is asked for.
func TestFullMemoryCgroup(t *testing.T) {
	const limit, size = 48 << 20, 96 << 20
	eachBackend(t, func(t *testing.T, b backend) {
		cg, control := memoryCgroup(t, limit)
		d := modelled(t)
		b.prefix = append([]string{"sh", "-c", `echo $$ >"$0/cgroup.procs" && exec "$@"`, cg}, b.prefix...)
		s := startServer(t, b, []string{d.Dir()})
		f := makeFile(t, d.Dir(), "file", 8, size)
		f.lookUp(dial(t, s))
		readers{conns: 4, depth: 8}.read(t, s, shuffled(split(f, 0, size, 128<<10), 16))
		text, err := os.ReadFile(filepath.Join(cg, control))
		must(t, err)
		t.Logf("%s: %s", control, text)
	})
}

// memoryCgroup makes a cgroup with a limit, of whichever version is there, and
// names the file that tells how often it was full.
func memoryCgroup(t *testing.T, limit int) (dir, control string) {
	t.Helper()
	for _, v := range []struct{ root, limit, full string }{
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.failcnt"},
		{"/sys/fs/cgroup", "memory.max", "memory.events"},
	} {
		dir, err := os.MkdirTemp(v.root, "sluice-test-")
		if err != nil {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, v.limit), fmt.Append(nil, limit), 0); err != nil {
			os.Remove(dir)
			continue
		}
		t.Cleanup(func() { eventually(t, stopGrace, func() error { return os.Remove(dir) }) })
		return dir, v.full
	}
	skip(t, "no memory cgroup can be made")
	return "", ""
}
