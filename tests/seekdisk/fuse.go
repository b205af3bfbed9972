package seekdisk

import (
	"context"
	"fmt"
	"os"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Names in the FUSE file system.
const (
	diskName    = "disk"
	controlName = "control"
)

// requestMax is the longest request that FUSE passes on, in bytes; the kernel
// allows 256 pages unless fs.fuse.max_pages_limit says more.
const requestMax = 1 << 20

// mountFuse mounts a FUSE file system at dir and returns the connection to whom
// serves it (Documentation/filesystems/fuse.rst).
func mountFuse(dir string) (*os.File, error) {
	conn, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other,max_read=%d", conn.Fd(), requestMax)
	if err := unix.Mount("seekdisk", dir, "fuse.seekdisk", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		conn.Close()
		return nil, &os.PathError{Op: "mount", Path: dir, Err: err}
	}
	return conn, nil
}

// serveFuse serves the file system with the drive's two files. connection is as
// fuse.NewServer takes it.
func serveFuse(connection string, d *drive, s *store, size int64) (*fuse.Server, error) {
	root := &rootNode{drive: d, store: s, size: size}
	return fs.Mount(connection, root, &fs.Options{MountOptions: fuse.MountOptions{
		MaxWrite:      requestMax,
		MaxBackground: 512,  // more than the loop device has tags
		DisableSplice: true, // the data are in memory
		// Without it the loop device's direct I/O comes one request at a time.
		ExtraCapabilities: fuse.CAP_ASYNC_DIO,
	}})
}

type rootNode struct {
	fs.Inode
	drive *drive
	store *store
	size  int64
}

func (r *rootNode) OnAdd(ctx context.Context) {
	for name, n := range map[string]fs.InodeEmbedder{
		diskName:    &diskNode{drive: r.drive, store: r.store, size: r.size},
		controlName: &controlNode{drive: r.drive},
	} {
		r.AddChild(name, r.NewPersistentInode(ctx, n, fs.StableAttr{Mode: syscall.S_IFREG}), false)
	}
}

// diskNode is the file with the disk's content.
type diskNode struct {
	fs.Inode
	drive *drive
	store *store
	size  int64
}

func (n *diskNode) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode, out.Nlink = 0o600, 1
	out.Size, out.Blocks, out.Blksize = uint64(n.size), uint64(n.size/512), pageSize
	return 0
}

// Setattr changes nothing; writing asks for it.
func (n *diskNode) Setattr(ctx context.Context, h fs.FileHandle, _ *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	return n.Getattr(ctx, h, out)
}

func (n *diskNode) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, fuse.FOPEN_DIRECT_IO, 0
}

func (n *diskNode) Flush(context.Context, fs.FileHandle) syscall.Errno         { return 0 }
func (n *diskNode) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno { return 0 }

func (n *diskNode) Read(_ context.Context, _ fs.FileHandle, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	dest = dest[:max(0, min(int64(len(dest)), n.size-off))]
	if errno := n.drive.read(off, int64(len(dest))); errno != 0 {
		return nil, errno
	}
	n.store.load(dest, off)
	return fuse.ReadResultData(dest), 0
}

func (n *diskNode) Write(_ context.Context, _ fs.FileHandle, data []byte, off int64) (uint32, syscall.Errno) {
	if off+int64(len(data)) > n.size {
		return 0, syscall.ENOSPC
	}
	if errno := n.drive.write(); errno != 0 {
		return 0, errno
	}
	n.store.save(data, off)
	return uint32(len(data)), 0
}
