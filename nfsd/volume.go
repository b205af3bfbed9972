package nfsd

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"sluice/export"
)

// volume is an exported directory, opened: where the objects of an export come
// from, and what their handles and fsid are made of. It outlives reloads of the
// exports that leave it exported.
type volume struct {
	path string
	dir  int // the directory, open; also the mount of openByHandle
	dev  uint64
	ino  uint64
	id   uint64 // in handles
	fsid uint64 // in fattr3
	// kernel says that the file system has handles that can be opened again.
	kernel bool
	// slow says that any system call on the file system may wait, as where a
	// network or a user process is behind it.
	slow bool
	// whole says that the directory is the root of its file system, so that no
	// object of the file system is outside the export.
	whole bool
	// linkless says that the file system reports no link counts, so that 0 does
	// not mean deleted.
	linkless bool
	// root is the handle of the directory, signed.
	root []byte
}

// openVolume opens an exported directory.
func (s *Server) openVolume(x *export.Export) (*volume, error) {
	dir, err := unix.Open(x.Path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: x.Path, Err: err}
	}
	v := &volume{path: x.Path, dir: dir}
	if err := s.describe(v, x); err != nil {
		unix.Close(dir)
		return nil, fmt.Errorf("%s: %w", x.Path, err)
	}
	return v, nil
}

func (s *Server) describe(v *volume, x *export.Export) error {
	var st unix.Stat_t
	if err := fstatMayBlock(v.dir, &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	var sf unix.Statfs_t
	if err := unix.Fstatfs(v.dir, &sf); err != nil {
		return os.NewSyscallError("fstatfs", err)
	}
	v.dev, v.ino, v.linkless = st.Dev, st.Ino, st.Nlink == 0
	v.slow = !localTypes[uint32(sf.Type)]
	v.whole = isMountRoot(v.dir)
	v.kernel = uint32(sf.Type) != fuseMagic && s.handlesWork(v.dir)
	v.identify(x, fileSystemID(v.dir, &st, &sf))
	root, err := s.encodeHandle(v, v.dir, nil, &st, nil)
	if err != nil {
		return fmt.Errorf("no file handle for the exported directory: %w", err)
	}
	v.root = root
	return nil
}

// handlesWork tries whether the kernel's handles can be made and opened here.
func (s *Server) handlesWork(dir int) bool {
	var h kernelHandle
	if nameToHandle(dir, &h) != nil || h.Bytes > maxBody || h.Type < 0 || h.Type > 0xffff {
		return false
	}
	fd, err := openByHandle(dir, &h, unix.O_PATH|unix.O_CLOEXEC)
	if err != nil {
		return false
	}
	unix.Close(fd)
	return true
}

// identify sets the volume's id and fsid: from fsid= if the export has it, which
// lets the administrator move a tree to another disk or server under the
// clients; else from the file system's identity and the directory's inode.
func (v *volume) identify(x *export.Export, fileSystem string) {
	name := fmt.Sprintf("%s inode %d", fileSystem, v.ino)
	fsidName := fileSystem
	if o := x.Entries[0].Options.FSID; o.HasNumber {
		name = fmt.Sprintf("number %d", o.Number)
		fsidName = ""
		v.fsid = uint64(o.Number)
	} else if o.UUID != "" {
		name = "uuid " + hexDigits(o.UUID)
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

// fileSystemID names a file system in a way that survives reboots and device
// renumbering, as far as that is to be had.
func fileSystemID(dir int, st *unix.Stat_t, sf *unix.Statfs_t) string {
	if uuid, ok := fsUUID(dir); ok {
		return "uuid " + hex.EncodeToString(uuid[:])
	}
	if uuid := diskUUID(st.Dev); uuid != "" {
		return "uuid " + hexDigits(uuid)
	}
	id := uint64(uint32(sf.Fsid.Val[0]))<<32 | uint64(uint32(sf.Fsid.Val[1]))
	if id != 0 && stableFsid[uint32(sf.Type)] {
		return fmt.Sprintf("fsid %016x", id)
	}
	// What is left is where it is mounted.
	path, _ := os.Readlink(fdPath(dir))
	return fmt.Sprintf("type %x path %s", sf.Type, path)
}

// diskUUID looks a block device up among the UUIDs that udev lists.
func diskUUID(dev uint64) string {
	const dir = "/dev/disk/by-uuid"
	names, err := os.ReadDir(dir)
	if err != nil {
		return ""
	}
	for _, n := range names {
		var st unix.Stat_t
		if unix.Stat(filepath.Join(dir, n.Name()), &st) == nil && st.Rdev == dev {
			return n.Name()
		}
	}
	return ""
}

// hexDigits drops the punctuation of a UUID.
func hexDigits(s string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("0123456789abcdef", r) {
			return r
		}
		return -1
	}, strings.ToLower(s))
}

// Magic numbers of linux/magic.h, where golang.org/x/sys/unix has no name.
const (
	fuseMagic   = 0x65735546
	zfsMagic    = 0x2fc12fc1
	bcachefs    = 0xca451a4e
	exfatMagic  = 0x2011bab0
	ntfs3Magic  = 0x7366746e
	vfatMagic   = 0x4d44
	erofsMagic  = 0xe0f5e1e2
	ramfsMagic  = 0x858458f6
	iso9660     = 0x9660
	jfsMagic    = 0x3153464a
	nilfsMagic  = 0x3434
	udfMagic    = 0x15013346
	reiserMagic = 0x52654973
)

// localTypes are file systems whose cached inodes can be looked at without
// waiting for anybody. All others are taken for slow.
var localTypes = map[uint32]bool{
	unix.EXT4_SUPER_MAGIC: true, unix.XFS_SUPER_MAGIC: true, unix.BTRFS_SUPER_MAGIC: true,
	unix.F2FS_SUPER_MAGIC: true, unix.TMPFS_MAGIC: true, unix.OVERLAYFS_SUPER_MAGIC: true,
	unix.SQUASHFS_MAGIC: true, zfsMagic: true, bcachefs: true, exfatMagic: true, ntfs3Magic: true,
	vfatMagic: true, erofsMagic: true, ramfsMagic: true, iso9660: true, jfsMagic: true,
	nilfsMagic: true, udfMagic: true, reiserMagic: true,
}

// stableFsid are file systems whose statfs f_fsid comes from their UUID and not
// from a device number (their *_statfs functions).
var stableFsid = map[uint32]bool{
	unix.EXT4_SUPER_MAGIC: true, unix.BTRFS_SUPER_MAGIC: true, unix.TMPFS_MAGIC: true,
	unix.OVERLAYFS_SUPER_MAGIC: true, bcachefs: true,
}

// isMountRoot says whether an open directory is the root of a whole file system,
// and not of a bind-mounted part of one: the fourth and fifth fields of
// /proc/self/mountinfo (proc(5)) are the part that is mounted, and where.
func isMountRoot(dir int) bool {
	path, err := os.Readlink(fdPath(dir))
	if err != nil {
		return false
	}
	info, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return false
	}
	escape := strings.NewReplacer("\\", `\134`, " ", `\040`, "\t", `\011`, "\n", `\012`)
	whole := false
	for line := range strings.Lines(string(info)) {
		f := strings.Fields(line)
		if len(f) > 4 && f[4] == escape.Replace(path) {
			whole = f[3] == "/" // the last one is on top
		}
	}
	return whole
}

// fdPath is the name of an open descriptor in /proc.
func fdPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// contains says whether an open directory lies within the exported tree, by the
// paths that the kernel gives both now.
func (v *volume) contains(fd int) bool {
	if v.whole {
		return true
	}
	root, err1 := os.Readlink(fdPath(v.dir))
	path, err2 := os.Readlink(fdPath(fd))
	if errors.Join(err1, err2) != nil {
		return false
	}
	return path == root || strings.HasPrefix(path, strings.TrimSuffix(root, "/")+"/")
}

// deleted says that an open object of the volume has no name any more.
func (v *volume) deleted(st *unix.Stat_t) bool { return st.Nlink == 0 && !v.linkless }

func (v *volume) close() { unix.Close(v.dir) }
