package nfsd

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"sluice/export"
)

// volume is the root of an export, or of a file system mounted below one: where
// objects come from, and what their handles and fsid are made of. It outlives
// reloads that leave it exported.
type volume struct {
	path string
	dev  uint64
	ino  uint64
	id   uint64 // in handles
	fsid uint64 // in fattr3
	// mount is the id of the mount that the directory is on.
	mount uint64
	fileSystem
	// whole says that the directory is the root of its file system, so that no
	// object of the file system is outside the volume.
	whole bool
	// root is the handle of the directory, signed.
	root []byte

	// What follows is guarded by openDirs.mu.

	// dir is the directory, open, or -1; also the mount of openByHandle.
	dir int
	// holders count who uses dir now, used says when it was last taken.
	holders int
	used    uint64
	// retired volumes are not opened again.
	retired bool
}

// fileSystem is what the volumes of one file system have in common.
type fileSystem struct {
	// name identifies the file system, see fileSystemID.
	name string
	// kernel says that it has handles that can be opened again.
	kernel bool
	// slow says that any system call on it may wait, as where a network or a user
	// process is behind it.
	slow bool
	// linkless says that it reports no link counts, so that 0 does not mean
	// deleted.
	linkless bool
	// inherits says that it may be served by the crossmnt of an export above it:
	// not what the kernel makes up, like /proc, nor what Linux nfsd would want an
	// fsid= for.
	inherits bool
}

// describer makes volumes. It asks once for what holds for a whole file system:
// thousands of exports tend to lie on one.
type describer struct {
	s      *Server
	mounts *mountTable
	known  map[uint64]fileSystem // by device
}

// describe looks a directory up and returns its volume, not open.
func (d *describer) describe(path string, fsid export.FSID) (*volume, error) {
	dir, err := openDirectory(path)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(dir)
	v := &volume{path: path, dir: -1}
	if err := d.fill(v, dir, fsid); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return v, nil
}

func openDirectory(path string) (int, error) {
	return unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
}

func (d *describer) fill(v *volume, dir int, fsid export.FSID) error {
	var st unix.Stat_t
	if err := fstatMayBlock(dir, &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	fs, known := d.known[st.Dev]
	if !known {
		var err error
		if fs, err = d.s.describeFS(dir, &st); err != nil {
			return err
		}
		d.known[st.Dev] = fs
	}
	v.fileSystem, v.dev, v.ino = fs, st.Dev, st.Ino
	v.mount = mountIDOf(dir)
	if m := d.mounts.byID[v.mount]; m != nil {
		v.whole = m.whole() && m.path == v.path
	}
	v.identify(fsid)
	root, err := d.s.encodeHandle(v, dir, nil, &st, nil)
	if err != nil {
		return fmt.Errorf("no file handle for the exported directory: %w", err)
	}
	v.root = root
	return nil
}

// mountIDOf returns the id of the mount that an open object is on, as the first
// field of mountinfo has it (statx(2), STATX_MNT_ID, Linux 5.8); 0 if unknown.
func mountIDOf(fd int) uint64 {
	var sx unix.Statx_t
	if unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &sx) != nil || sx.Mask&unix.STATX_MNT_ID == 0 {
		return 0
	}
	return sx.Mnt_id
}

// identify sets the volume's id and fsid: from fsid= if the export has it, which
// lets the administrator move a tree to another disk or server under the
// clients; else from the file system's identity and the directory's inode.
func (v *volume) identify(fsid export.FSID) {
	name := fmt.Sprintf("%s inode %d", v.name, v.ino)
	fsidName := v.name
	switch {
	case fsid.HasNumber:
		name = fmt.Sprintf("number %d", fsid.Number)
		fsidName = ""
		v.fsid = uint64(fsid.Number)
	case fsid.UUID != "":
		name = "uuid " + hexDigits(fsid.UUID)
		fsidName = name
	}
	v.id = hash64("volume " + name)
	if fsidName != "" {
		v.fsid = hash64("fsid " + fsidName)
	}
}

func hash64(s string) uint64 {
	sum := sha256.Sum256([]byte(s))
	return binary.BigEndian.Uint64(sum[:])
}

// same says whether two volumes are one directory.
func (v *volume) same(o *volume) bool { return v.dev == o.dev && v.ino == o.ino }

// fdPath is the name of an open descriptor in /proc.
func fdPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// maxDepth bounds the way up from a directory to the root of its volume.
const maxDepth = 4096

// contains says whether an open directory lies within the volume. The caller
// must be privileged.
//
// The kernel does not go up from a directory to one that is not below the root
// of its mount (path_connected in fs/namei.c), so on a mount of our own one step
// tells. Elsewhere the way up has to come by the volume's root.
func (v *volume) contains(fd int) bool {
	if v.whole {
		return true
	}
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return false
	}
	if st.Dev == v.dev && st.Ino == v.ino {
		return true
	}
	up, err := openParent(fd)
	if err != nil {
		return false
	}
	if v.mount != mountIDOf(fd) { // on a mount made by openClone
		unix.Close(up)
		return true
	}
	return v.isAbove(up, &st)
}

// isAbove goes up from a directory, which it closes, whose child is given.
func (v *volume) isAbove(dir int, child *unix.Stat_t) bool {
	last := *child
	for range maxDepth {
		var st unix.Stat_t
		if unix.Fstat(dir, &st) != nil || st.Dev == last.Dev && st.Ino == last.Ino { // the top
			break
		}
		if st.Dev == v.dev && st.Ino == v.ino {
			unix.Close(dir)
			return true
		}
		last = st
		up, err := openParent(dir)
		if err != nil {
			break
		}
		unix.Close(dir)
		dir = up
	}
	unix.Close(dir)
	return false
}

func openParent(dir int) (int, error) {
	return unix.Openat2(dir, "..", &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_XDEV})
}

// deleted says that an open object of the volume has no name any more.
func (v *volume) deleted(st *unix.Stat_t) bool { return st.Nlink == 0 && !v.linkless }
