package nfsd

import (
	"golang.org/x/sys/unix"

	"sluice/rpc"
	"sluice/rpc/xdr"
)

// accessProc is ACCESS (section 3.3.4): of the bits asked for, those that the
// kernel would allow. Everything is read-only here, so no write bit is among
// them.
func accessProc(c *rpc.Call) rpc.Result {
	fh, ok := parseHandle(&c.Args)
	asked := c.Args.Uint32()
	if !ok || c.Args.Err() != nil {
		return rpc.GarbageArgs
	}
	w := c.Thread.(*worker)
	t, st := w.resolve(c, fh)
	if st == wait {
		return rpc.Wait
	}
	if st != nfs3OK {
		c.Reply = appendNoAttr(appendStatus(c.Reply, st))
		return rpc.Done
	}
	defer t.release()
	c.Reply = appendPostOp(appendStatus(c.Reply, nfs3OK), &t.attr)
	c.Reply = xdr.AppendUint32(c.Reply, w.accessBits(t, asked))
	return rpc.Done
}

// accessBits asks the kernel. Searching is LOOKUP for a directory, EXECUTE for
// anything else.
func (w *worker) accessBits(t *target, asked uint32) uint32 {
	search := uint32(access3Execute)
	if t.isDir() {
		search = access3Lookup
	}
	asked &= access3Read | search
	var mode uint32
	if asked&access3Read != 0 {
		mode |= unix.R_OK
	}
	if asked&search != 0 {
		mode |= unix.X_OK
	}
	if mode == 0 || w.access(t.id, t.file.Path(), mode) == nil {
		return asked
	}
	if mode == unix.R_OK|unix.X_OK { // not both: perhaps one
		if w.access(t.id, t.file.Path(), unix.R_OK) == nil {
			return access3Read
		}
		if w.access(t.id, t.file.Path(), unix.X_OK) == nil {
			return search
		}
	}
	return 0
}

// checkRead says whether the caller may read the file. NFS has no open, so two
// rules go beyond the mode (section 4.4): the owner may always read, for he may
// have changed the mode after his client opened the file; and who may execute a
// file may read it, for the client has to load it.
func (w *worker) checkRead(t *target) nfsstat3 {
	if t.obj.may(t.id, t.attr.Ctim) {
		return nfs3OK
	}
	fd := t.file.Path()
	if t.id.uid != t.attr.Uid || !w.srv.switches {
		err := w.access(t.id, fd, unix.R_OK)
		if err == unix.EACCES {
			err = w.access(t.id, fd, unix.X_OK)
		}
		if err != nil {
			return statusOf(err)
		}
	}
	t.obj.allow(t.id, t.attr.Ctim)
	return nfs3OK
}

// checkSearch says whether the caller may look names up in a directory.
func (w *worker) checkSearch(t *target) nfsstat3 {
	if t.obj.may(t.id, t.attr.Ctim) {
		return nfs3OK
	}
	if err := w.access(t.id, t.file.Path(), unix.X_OK); err != nil {
		return statusOf(err)
	}
	t.obj.allow(t.id, t.attr.Ctim)
	return nfs3OK
}
