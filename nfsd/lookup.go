package nfsd

import (
	"bytes"

	"golang.org/x/sys/unix"

	"sluice/ioctx"
	"sluice/rpc"
	"sluice/rpc/xdr"
)

// lookupProc is LOOKUP (section 3.3.3).
func lookupProc(c *rpc.Call) rpc.Result {
	fh, name, ok := parseDirOp(&c.Args)
	if !ok {
		return rpc.GarbageArgs
	}
	w := c.Thread.(*worker)
	dir, st := w.resolve(c, fh)
	if st == wait {
		return rpc.Wait
	}
	if st != nfs3OK {
		c.Reply = appendNoAttr(appendStatus(c.Reply, st))
		return rpc.Done
	}
	defer dir.release()
	handle, st := w.lookup(c, dir, name)
	if st == wait {
		return rpc.Wait
	}
	c.Reply = appendStatus(c.Reply, st)
	if st == nfs3OK {
		c.Reply = xdr.AppendOpaque(c.Reply, handle)
		c.Reply = appendPostOp(c.Reply, &w.child)
	}
	c.Reply = appendPostOp(c.Reply, &dir.attr)
	return rpc.Done
}

// lookup finds name in dir and returns its handle, which lasts until the worker's
// next call, with its attributes in w.child.
func (w *worker) lookup(c *rpc.Call, dir *target, name []byte) ([]byte, nfsstat3) {
	if !dir.isDir() {
		return nil, nfs3ErrNotdir
	}
	if st := checkName(name); st != nfs3OK {
		return nil, st
	}
	if st := w.checkSearch(dir); st != nfs3OK {
		return nil, st
	}
	switch string(name) {
	case ".":
		w.child = dir.attr
		return dir.file.Handle(), nfs3OK
	case "..":
		if bytes.Equal(dir.file.Handle(), dir.vol.root) {
			return w.leave(c, dir)
		}
		return w.lookupParent(c, dir)
	}
	if !dir.share.crosses {
		return w.lookupName(c, dir, name)
	}
	if st := w.freshMounts(c); st != nfs3OK {
		return nil, st
	}
	fh, st := w.lookupName(c, dir, name)
	if st == nfs3OK && w.child.Mode&unix.S_IFMT == unix.S_IFDIR {
		return w.cross(c, dir, fh)
	}
	return fh, st
}

func (w *worker) lookupName(c *rpc.Call, dir *target, name []byte) ([]byte, nfsstat3) {
	if fh := w.lookupKnown(c, dir, name); fh != nil {
		return fh, nfs3OK
	}
	return w.lookupChild(c, dir, name)
}

// lookupKnown answers from what was found before, or returns nil.
func (w *worker) lookupKnown(c *rpc.Call, dir *target, name []byte) []byte {
	if dir.vol.slow {
		return nil
	}
	key := w.srv.names.get(dir.obj, &dir.attr, name)
	if key == nil {
		return nil
	}
	file := w.srv.io.Files.Get(key)
	if file == nil {
		return nil
	}
	defer file.Release()
	if w.stat(c, file.Path(), &w.child.Stat_t) != nil || dir.vol.deleted(&w.child.Stat_t) {
		return nil
	}
	w.child.fsid = dir.vol.fsid
	w.srv.names.Hits.Add(1)
	return append(w.fh[:0], file.Handle()...)
}

// checkName judges a name. Any bytes but '/' and NUL make a name.
func checkName(name []byte) nfsstat3 {
	switch {
	case len(name) > nfs3MaxName:
		return nfs3ErrNametoolong
	case len(name) == 0 || bytes.IndexByte(name, '/') >= 0 || bytes.IndexByte(name, 0) >= 0:
		return nfs3ErrAcces
	}
	return nfs3OK
}

// lookupChild opens a name in dir as the caller, without following a symbolic
// link, without crossing into another mount, and on a server thread only if the
// kernel has the name cached.
func (w *worker) lookupChild(c *rpc.Call, dir *target, name []byte) ([]byte, nfsstat3) {
	w.how = unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_XDEV}
	if !c.MayBlock {
		w.how.Resolve |= resolveCached
	}
	w.name[copy(w.name[:], name)] = 0
	if st := w.become(dir.id); st != nfs3OK {
		return nil, st
	}
	fd, err := openat2(dir.file.Path(), &w.name[0], &w.how)
	if err != nil {
		// EAGAIN: not cached. EINVAL: a kernel before 5.12, without RESOLVE_CACHED.
		if !c.MayBlock && (err == unix.EAGAIN || err == unix.EINVAL) {
			return nil, wait
		}
		if err == unix.EXDEV {
			return w.crossByPath(c, dir, name)
		}
		return nil, lookupStatus(err)
	}
	fh, st := w.found(c, dir, fd, bodyOf(dir.file.Handle()))
	if st == nfs3OK && !dir.vol.slow {
		key, _ := ioctx.MakeKey(fh)
		w.srv.names.put(dir.obj, &dir.attr, name, &key)
	}
	return fh, st
}

// lookupStatus maps what openat2(2) says of one component.
func lookupStatus(err error) nfsstat3 {
	switch err {
	case unix.EXDEV: // something is mounted there, and not exported
		return nfs3ErrAcces
	case unix.EAGAIN:
		return nfs3ErrJukebox
	}
	return statusOf(err)
}

// found makes the handle of the object that fd has open, and puts it into the
// cache, since the next call is about it. It owns fd. parent is the body of the
// directory's handle.
func (w *worker) found(c *rpc.Call, dir *target, fd int, parent []byte) ([]byte, nfsstat3) {
	if err := w.stat(c, fd, &w.child.Stat_t); err != nil {
		unix.Close(fd)
		return nil, statusOf(err)
	}
	w.child.fsid = dir.vol.fsid
	handle, err := w.childHandle(dir, dir.file.Path(), fd, &w.child.Stat_t, parent)
	if err != nil {
		unix.Close(fd)
		return nil, statusOf(err)
	}
	w.remember(dir.vol, handle, fd, w.child.Mode&unix.S_IFMT)
	return handle, nfs3OK
}

// remember puts an object into the cache. It owns fd.
func (w *worker) remember(v *volume, handle []byte, fd int, typ uint32) {
	key, _ := ioctx.MakeKey(handle)
	if file := w.srv.io.Files.Get(&key); file != nil {
		file.Release()
		unix.Close(fd)
		return
	}
	file, err := w.srv.io.Files.Add(&key, fd, newObject(v, typ))
	if err != nil {
		unix.Close(fd) // the cache is full of files in use; do without
		return
	}
	file.Release()
}

// lookupParent opens the directory above dir. A directory that has been moved
// out of the export has no parent in it.
func (w *worker) lookupParent(c *rpc.Call, dir *target) ([]byte, nfsstat3) {
	if !c.MayBlock {
		return nil, wait // checking containment walks up
	}
	w.how = unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_XDEV}
	w.name[copy(w.name[:], "..")] = 0
	if st := w.become(dir.id); st != nfs3OK {
		return nil, st
	}
	fd, err := openat2(dir.file.Path(), &w.name[0], &w.how)
	if err == unix.ENOENT { // the parent is not below the root of our own mount
		return nil, nfs3ErrStale
	}
	if err != nil {
		return nil, lookupStatus(err)
	}
	if st := w.become(privileged); st != nfs3OK || !dir.vol.contains(fd) {
		unix.Close(fd)
		return nil, nfs3ErrStale
	}
	if dir.vol.kernel {
		return w.found(c, dir, fd, nil)
	}
	return w.foundParent(c, dir, fd)
}

// foundParent is found for handles that are path hints.
func (w *worker) foundParent(c *rpc.Call, dir *target, fd int) ([]byte, nfsstat3) {
	if err := w.stat(c, fd, &w.child.Stat_t); err != nil {
		unix.Close(fd)
		return nil, statusOf(err)
	}
	w.child.fsid = dir.vol.fsid
	if w.child.Ino == dir.vol.ino && w.child.Dev == dir.vol.dev {
		unix.Close(fd)
		return append(w.fh[:0], dir.vol.root...), nfs3OK
	}
	hint, ok := parseHint(bodyOf(dir.file.Handle()))
	if !ok {
		unix.Close(fd)
		return nil, nfs3ErrBadhandle
	}
	hint, err := hint.parentHint(fd, &w.child.Stat_t)
	if err != nil {
		unix.Close(fd)
		return nil, statusOf(err)
	}
	up := handle{kind: kindPath, volume: dir.vol.id, body: hint.encode(w.kh.Data[:0])}
	signed := up.append(w.fh[:0], w.srv.key)
	w.remember(dir.vol, signed, fd, unix.S_IFDIR)
	return signed, nfs3OK
}

// readlinkProc is READLINK (section 3.3.5).
func readlinkProc(c *rpc.Call) rpc.Result {
	fh, ok := parseHandle(&c.Args)
	if !ok {
		return rpc.GarbageArgs
	}
	w := c.Thread.(*worker)
	if !c.MayBlock {
		return w.waitFor(c, fh) // the text may be in a block of its own
	}
	t, st := w.resolve(c, fh)
	if st != nfs3OK {
		c.Reply = appendNoAttr(appendStatus(c.Reply, st))
		return rpc.Done
	}
	defer t.release()
	if t.obj.typ != unix.S_IFLNK {
		c.Reply = appendPostOp(appendStatus(c.Reply, nfs3ErrInval), &t.attr)
		return rpc.Done
	}
	buf := w.directoryBuffer()[:maxSymlink]
	n, err := readlinkFD(t.file.Path(), buf)
	c.Reply = appendStatus(c.Reply, statusOf(err))
	c.Reply = appendPostOp(c.Reply, &t.attr)
	if err == nil {
		c.Reply = xdr.AppendOpaque(c.Reply, buf[:n])
	}
	return rpc.Done
}
