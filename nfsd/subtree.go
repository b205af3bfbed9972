package nfsd

import (
	"bytes"

	"golang.org/x/sys/unix"

	"sluice/rpc"
)

// subtree_check of exports(5): what a handle leads to must lie in the exported
// tree, and each directory above it, up to the export's root, must let the caller
// search. Linux nfsd goes up from the object (nfsd_acceptable in fs/nfsd/nfsfh.c);
// here the kernel is asked for the object's path, and then whether the caller can
// walk that path from the root and arrives at the object. What the kernel knows no
// path of is stale.

// checkSubtree is the check for an opened object.
func (w *worker) checkSubtree(c *rpc.Call, t *target) nfsstat3 {
	if bytes.Equal(t.file.Handle(), t.vol.root) {
		return nfs3OK
	}
	dir, st := w.rootOf(c, t.vol)
	if st != nfs3OK {
		return st
	}
	defer w.srv.dirs.release(t.vol)
	if st = w.walkTo(c, t, dir); st == nfs3ErrStale {
		// Another link to the object may be in the tree. It is found when the handle
		// is opened again.
		w.srv.io.Files.Drop(t.file)
	}
	return st
}

// rootOf is openDirs.acquire; on a server thread only of what is open already.
func (w *worker) rootOf(c *rpc.Call, v *volume) (int, nfsstat3) {
	if dir := w.srv.dirs.take(v); dir >= 0 {
		return dir, nfs3OK
	}
	if !c.MayBlock {
		return -1, wait
	}
	if st := w.become(privileged); st != nfs3OK {
		return -1, st
	}
	dir, err := w.srv.dirs.acquire(v)
	if err != nil {
		return -1, staleUnless(err)
	}
	return dir, nfs3OK
}

// walkTo walks from the volume's root to the object as the caller.
func (w *worker) walkTo(c *rpc.Call, t *target, dir int) nfsstat3 {
	root, err1 := readPath(dir)
	path, err2 := readPath(t.file.Path())
	rel := below(root, path)
	if err1 != nil || err2 != nil || rel == "" || len(rel) >= unix.PathMax {
		return nfs3ErrStale
	}
	if st := w.become(t.id); st != nfs3OK {
		return st
	}
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV}
	if !c.MayBlock {
		how.Resolve |= resolveCached
	}
	fd, err := unix.Openat2(dir, rel, &how)
	switch {
	case err == nil:
	case !c.MayBlock && (err == unix.EAGAIN || err == unix.EINVAL):
		return wait
	case err == unix.EAGAIN: // renames went on all the while
		return nfs3ErrJukebox
	default:
		return staleUnless(err)
	}
	defer unix.Close(fd)
	var there, here unix.Stat_t
	if fstat(fd, &there) != nil || fstat(t.file.Path(), &here) != nil || there.Ino != here.Ino || there.Dev != here.Dev {
		return nfs3ErrStale
	}
	return nfs3OK
}

// A handle that the kernel calls connectable (name_to_handle_at(2),
// AT_HANDLE_CONNECTABLE, Linux 6.13) names the directory of a file too. So the
// file has a path when it is opened again after nobody has looked it up for long,
// or after a restart. Where the file system has none of these, or they are too
// long, such files are stale until they are looked up again.

// fileidConnectable is FILEID_IS_CONNECTABLE (linux/exportfs.h) in the type of a
// kernel handle.
const fileidConnectable = 0x10000

// connectable gets such a handle for the name in w.name, in the directory dir, and
// makes sure that it is of the object that fd has open.
func (w *worker) connectable(v *volume, dir, fd int) bool {
	if w.become(privileged) != nfs3OK || nameToConnectable(dir, &w.name[0], &w.kh) != nil || w.kh.Bytes > maxBody {
		return false
	}
	root, err := w.srv.dirs.acquire(v)
	if err != nil {
		return false
	}
	defer w.srv.dirs.release(v)
	again, err := openByHandle(root, &w.kh, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW)
	if err != nil {
		return false
	}
	defer unix.Close(again)
	var a, b unix.Stat_t
	return fstat(fd, &a) == nil && fstat(again, &b) == nil && a.Ino == b.Ino && a.Dev == b.Dev
}

// childHandle makes the handle of what was found as w.name in dir, in w.fh.
func (w *worker) childHandle(dir *target, at, fd int, st *unix.Stat_t, parent []byte) ([]byte, error) {
	if dir.share.subtree && dir.vol.kernel && st.Mode&unix.S_IFMT != unix.S_IFDIR && w.connectable(dir.vol, at, fd) {
		h := handle{kind: kindKernel, volume: dir.vol.id, typ: packType(w.kh.Type), body: w.kh.Data[:w.kh.Bytes]}
		return h.append(w.fh[:0], w.srv.key), nil
	}
	return w.srv.appendHandle(w.fh[:0], dir.vol, fd, &w.kh, st, parent)
}

// packType puts the type of a kernel handle into the 16 bits that ours has for it.
// The kernel's own types are below 256; of the flags above them one is used here.
func packType(typ int32) uint16 {
	t := uint16(typ)
	if typ&fileidConnectable != 0 {
		t |= 1 << 15
	}
	return t
}

func unpackType(t uint16) int32 {
	if t&(1<<15) != 0 {
		return int32(t&^(1<<15)) | fileidConnectable
	}
	return int32(t)
}
