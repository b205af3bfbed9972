package nfsd

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// describeFS looks at the file system that an open directory is on.
func (s *Server) describeFS(dir int, st *unix.Stat_t) (fileSystem, error) {
	var sf unix.Statfs_t
	if err := unix.Fstatfs(dir, &sf); err != nil {
		return fileSystem{}, os.NewSyscallError("fstatfs", err)
	}
	typ := uint32(sf.Type)
	fs := fileSystem{slow: !localTypes[typ], linkless: st.Nlink == 0}
	fs.kernel = typ != fuseMagic && s.handlesWork(dir)
	var uuid bool
	fs.name, uuid = fileSystemID(dir, st, &sf)
	fs.inherits = uuid || localTypes[typ]
	return fs, nil
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

// fileSystemID names a file system in a way that survives reboots and device
// renumbering, as far as that is to be had. uuid says that the name is one of
// the file system's own.
func fileSystemID(dir int, st *unix.Stat_t, sf *unix.Statfs_t) (name string, uuid bool) {
	if id, ok := fsUUID(dir); ok {
		return "uuid " + hex.EncodeToString(id[:]), true
	}
	if id := diskUUID(st.Dev); id != "" {
		return "uuid " + hexDigits(id), true
	}
	id := uint64(uint32(sf.Fsid.Val[0]))<<32 | uint64(uint32(sf.Fsid.Val[1]))
	if id != 0 && stableFsid[uint32(sf.Type)] {
		return fmt.Sprintf("fsid %016x", id), true
	}
	// What is left is where it is mounted.
	path, _ := os.Readlink(fdPath(dir))
	return fmt.Sprintf("type %x path %s", sf.Type, path), false
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
