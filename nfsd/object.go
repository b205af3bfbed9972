package nfsd

import (
	"strconv"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"sluice/ioctx"
	"sluice/rpc"
)

// object is what the file cache keeps with a file.
type object struct {
	vol *volume
	// typ is the S_IFMT part of the mode; an inode never changes it.
	typ uint32
	// number spreads what is kept by object over tables.
	number uint64
	// allowed are callers who may read the file, or search the directory. They
	// hold while its ctime is what it was, since every change of mode, owner or
	// ACL changes that.
	allowed [4]atomic.Pointer[verdict]
	next    atomic.Uint32
}

var objects atomic.Uint64

func newObject(v *volume, typ uint32) *object {
	return &object{vol: v, typ: typ, number: objects.Add(1)}
}

type verdict struct {
	id    *identity
	ctime unix.Timespec
}

// may looks for a verdict.
func (o *object) may(id *identity, ctime unix.Timespec) bool {
	for i := range o.allowed {
		if v := o.allowed[i].Load(); v != nil && v.id == id && v.ctime == ctime {
			return true
		}
	}
	return false
}

// allow keeps a verdict.
func (o *object) allow(id *identity, ctime unix.Timespec) {
	if settled(ctime) {
		o.allowed[o.next.Add(1)%uint32(len(o.allowed))].Store(&verdict{id, ctime})
	}
}

// target is the object that a call is about, with its attributes, and the caller
// as the export sees him. It belongs to the worker until release.
type target struct {
	file  *ioctx.File
	obj   *object
	vol   *volume
	share *share
	adm   *admission
	id    *identity
	attr  attr
}

func (t *target) release() {
	if t.file != nil {
		t.file.Release()
		t.file = nil
	}
}

func (t *target) isDir() bool { return t.obj.typ == unix.S_IFDIR }

// resolve finds the object of a handle and checks that the caller may use the
// export at all. With any status but NFS3_OK there is nothing to release. It
// returns wait if it would have to wait and the call must not.
func (w *worker) resolve(c *rpc.Call, fh []byte) (*target, nfsstat3) {
	t := &w.target
	id, ok := handleVolumeOf(fh)
	if !ok {
		return nil, nfs3ErrBadhandle
	}
	set := w.srv.shares.Load()
	t.share = set.byID[id]
	if t.share == nil {
		return nil, nfs3ErrStale
	}
	t.vol = t.share.vol
	c.WaitClass = t.vol.dev
	var st nfsstat3
	if t.adm, t.id, st = w.admit(c, set, t.share); st != nfs3OK {
		if st == wait {
			c.WaitClass = classNames
		}
		return nil, st
	}
	if t.vol.slow && !c.MayBlock {
		return nil, wait
	}
	if st = w.openHandle(c, fh, t); st != nfs3OK {
		return nil, st
	}
	if st = w.getattr(c, t); st != nfs3OK {
		t.release()
		return nil, st
	}
	if t.adm.entry.Options.SubtreeCheck {
		if st = w.checkSubtree(c, t); st != nfs3OK {
			t.release()
			return nil, st
		}
	}
	return t, nfs3OK
}

// waitFor has the call run on a waiting thread, in the class of the disk that
// its handle is on, unless its client has to be found out about first.
func (w *worker) waitFor(c *rpc.Call, fh []byte) rpc.Result {
	id, ok := handleVolumeOf(fh)
	set := w.srv.shares.Load()
	sh := set.byID[id]
	if !ok || sh == nil {
		return rpc.Wait
	}
	c.WaitClass = sh.vol.dev
	if c.Conn.(*connState).find(set, sh) == nil {
		if _, st := w.match(c, set, sh); st == wait {
			c.WaitClass = classNames
		}
	}
	return rpc.Wait
}

// openHandle takes the file from the cache, or opens it.
func (w *worker) openHandle(c *rpc.Call, fh []byte, t *target) nfsstat3 {
	key, ok := ioctx.MakeKey(fh)
	if !ok {
		return nfs3ErrBadhandle
	}
	if t.file = w.srv.io.Files.Get(&key); t.file != nil {
		// Whoever put it there has seen the MAC.
		t.obj = t.file.Value.(*object)
		return nfs3OK
	}
	h, ok := parseSigned(fh, w.srv.key)
	if !ok {
		return nfs3ErrBadhandle
	}
	if !c.MayBlock {
		return wait
	}
	fd, st := w.open(t.vol, h)
	if st != nfs3OK {
		return st
	}
	return w.share(t, &key, fd)
}

// open opens the object of a handle with O_PATH: nothing is opened for reading,
// so devices and FIFOs feel nothing.
func (w *worker) open(v *volume, h handle) (int, nfsstat3) {
	if st := w.become(privileged); st != nfs3OK {
		return -1, st
	}
	if h.kind == kindPath {
		return w.openByPath(v, h.body)
	}
	if !v.kernel {
		return -1, nfs3ErrStale
	}
	dir, err := w.srv.dirs.acquire(v)
	if err != nil {
		return -1, staleUnless(err)
	}
	defer w.srv.dirs.release(v)
	w.kh.Bytes, w.kh.Type = uint32(copy(w.kh.Data[:], h.body)), unpackType(h.typ)
	fd, err := openByHandle(dir, &w.kh, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW)
	if err != nil {
		return -1, staleUnless(err)
	}
	return fd, nfs3OK
}

// staleUnless is the status of a handle whose object could not be opened.
func staleUnless(err error) nfsstat3 {
	switch err {
	case unix.EMFILE, unix.ENFILE, unix.ENOMEM:
		return nfs3ErrJukebox
	}
	return nfs3ErrStale
}

// share puts an opened object into the cache. It owns fd.
func (w *worker) share(t *target, key *ioctx.Key, fd int) nfsstat3 {
	var st unix.Stat_t
	if err := fstatMayBlock(fd, &st); err != nil {
		unix.Close(fd)
		return statusOf(err)
	}
	typ := st.Mode & unix.S_IFMT
	if t.vol.deleted(&st) || (typ == unix.S_IFDIR && !t.vol.contains(fd)) {
		unix.Close(fd)
		return nfs3ErrStale
	}
	return w.add(t, key, fd, typ)
}

func (w *worker) add(t *target, key *ioctx.Key, fd int, typ uint32) nfsstat3 {
	file, err := w.srv.io.Files.Add(key, fd, newObject(t.vol, typ))
	if err != nil {
		unix.Close(fd)
		return nfs3ErrJukebox
	}
	if w.srv.dirs.isRetired(t.vol) { // just now: whoever drops its files may have missed this one
		w.srv.io.Files.Drop(file)
	}
	t.file, t.obj = file, file.Value.(*object)
	return nfs3OK
}

// getattr fills in the attributes. An object without links has been deleted:
// only our own descriptor keeps it.
func (w *worker) getattr(c *rpc.Call, t *target) nfsstat3 {
	err := w.stat(c, t.file.Path(), &t.attr.Stat_t)
	if err != nil {
		return statusOf(err)
	}
	if t.vol.deleted(&t.attr.Stat_t) {
		w.srv.io.Files.Drop(t.file)
		return nfs3ErrStale
	}
	t.attr.fsid = t.vol.fsid
	return nfs3OK
}

// stat asks for attributes of an open object; on a waiting thread it may sleep.
func (w *worker) stat(c *rpc.Call, fd int, st *unix.Stat_t) error {
	if c.MayBlock {
		return fstatMayBlock(fd, st)
	}
	return fstat(fd, st)
}

// procPath writes the name of a descriptor in /proc, ending in NUL, into the
// worker's buffer.
func (w *worker) procPath(fd int) *byte {
	b := append(w.path[:0], "/proc/self/fd/"...)
	b = strconv.AppendInt(b, int64(fd), 10)
	return &append(b, 0)[0]
}

// encodeHandle appends the signed handle of an open object. parent is the body
// of its directory's handle, used where there are no kernel handles.
func (s *Server) encodeHandle(v *volume, fd int, kh *kernelHandle, st *unix.Stat_t, parent []byte) ([]byte, error) {
	if kh == nil {
		kh = new(kernelHandle)
	}
	return s.appendHandle(nil, v, fd, kh, st, parent)
}

func (s *Server) appendHandle(b []byte, v *volume, fd int, kh *kernelHandle, st *unix.Stat_t, parent []byte) ([]byte, error) {
	h := handle{volume: v.id}
	if v.kernel {
		if err := nameToHandle(fd, kh); err != nil {
			return nil, err
		}
		if kh.Bytes > maxBody {
			return nil, unix.EOVERFLOW
		}
		h.kind, h.typ, h.body = kindKernel, uint16(kh.Type), kh.Data[:kh.Bytes]
		return h.append(b, s.key), nil
	}
	hint, err := childHint(fd, st, parent, v)
	if err != nil {
		return nil, err
	}
	h.kind, h.body = kindPath, hint.encode(kh.Data[:0])
	return h.append(b, s.key), nil
}
