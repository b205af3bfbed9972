package nfsd

import (
	"sluice/rpc"
	"sluice/rpc/xdr"
)

// The procedures that would change something. Arguments are decoded in full, so
// that garbage is called garbage; handles are checked as for any procedure; then
// the answer is NFS3ERR_ROFS with wcc_data.

// modifying makes a handler. parse reads the arguments and returns the handles
// whose wcc_data the result carries; tail appends what follows them.
func modifying(parse func(r *xdr.Reader) (dirs [2][]byte, ok bool), encode func(b []byte, w *worker, c *rpc.Call, fhs [2][]byte) ([]byte, nfsstat3)) rpc.Handler {
	return func(c *rpc.Call) rpc.Result {
		fhs, ok := parse(&c.Args)
		if !ok || c.Args.Err() != nil {
			return rpc.GarbageArgs
		}
		w := c.Thread.(*worker)
		mark := len(c.Reply)
		b, st := encode(appendStatus(c.Reply, nfs3ErrRofs), w, c, fhs)
		if st == wait {
			return rpc.Wait
		}
		c.Reply = b
		if st != nfs3OK {
			xdr.AppendUint32(b[:mark], uint32(st))
		}
		return rpc.Done
	}
}

// wcc appends the wcc_data of one handle and says if it was a good one.
func (w *worker) wcc(b []byte, c *rpc.Call, fh []byte) ([]byte, nfsstat3) {
	t, st := w.resolve(c, fh)
	if st != nfs3OK {
		return appendNoWcc(b), st
	}
	defer t.release()
	return appendWcc(b, &t.attr), nfs3OK
}

func oneWcc(b []byte, w *worker, c *rpc.Call, fhs [2][]byte) ([]byte, nfsstat3) {
	return w.wcc(b, c, fhs[0])
}

// twoWcc is RENAME's result: both directories.
func twoWcc(b []byte, w *worker, c *rpc.Call, fhs [2][]byte) ([]byte, nfsstat3) {
	b, st := w.wcc(b, c, fhs[0])
	if st == wait {
		return b, st
	}
	b, st2 := w.wcc(b, c, fhs[1])
	if st == nfs3OK || st2 == wait {
		st = st2
	}
	return b, st
}

// attrThenWcc is LINK's result: the file's post_op_attr, the directory's wcc_data.
func attrThenWcc(b []byte, w *worker, c *rpc.Call, fhs [2][]byte) ([]byte, nfsstat3) {
	t, st := w.resolve(c, fhs[0])
	switch st {
	case wait:
		return b, st
	case nfs3OK:
		b = appendPostOp(b, &t.attr)
		t.release()
	default:
		b = appendNoAttr(b)
	}
	b, st2 := w.wcc(b, c, fhs[1])
	if st == nfs3OK || st2 == wait {
		st = st2
	}
	return b, st
}

// skipSattr reads a sattr3 (section 2.6).
func skipSattr(r *xdr.Reader) {
	for range 3 { // mode, uid, gid
		if r.Bool() {
			r.Uint32()
		}
	}
	if r.Bool() { // size
		r.Uint64()
	}
	for range 2 { // atime, mtime: 0 leave, 1 the server's time, 2 the client's
		switch how := r.Uint32(); {
		case how == 2:
			r.Uint64()
		case how > 2:
			r.Fixed(1 << 30) // no such time_how: fail the reader
		}
	}
}

func parseSetattr(r *xdr.Reader) (fhs [2][]byte, ok bool) {
	fhs[0], ok = parseHandle(r)
	skipSattr(r)
	if r.Bool() { // guard
		r.Uint64()
	}
	return fhs, ok
}

func parseWrite(r *xdr.Reader) (fhs [2][]byte, ok bool) {
	fhs[0], ok = parseHandle(r)
	r.Uint64()           // offset
	count := r.Uint32()  // count
	stable := r.Uint32() // stable_how
	data := r.Opaque(wtmax)
	return fhs, ok && stable <= 2 && uint32(len(data)) >= count
}

func parseName(r *xdr.Reader) (fhs [2][]byte, ok bool) {
	fhs[0], _, ok = parseDirOp(r)
	return fhs, ok
}

func parseCreate(r *xdr.Reader) (fhs [2][]byte, ok bool) {
	fhs[0], _, ok = parseDirOp(r)
	switch r.Uint32() { // createmode3
	case 0, 1: // UNCHECKED, GUARDED
		skipSattr(r)
	case 2: // EXCLUSIVE
		r.Fixed(nfs3CreateVerf)
	default:
		ok = false
	}
	return fhs, ok
}

func parseMkdir(r *xdr.Reader) (fhs [2][]byte, ok bool) {
	fhs[0], _, ok = parseDirOp(r)
	skipSattr(r)
	return fhs, ok
}

func parseSymlink(r *xdr.Reader) (fhs [2][]byte, ok bool) {
	fhs[0], _, ok = parseDirOp(r)
	skipSattr(r)
	r.Opaque(maxSymlink)
	return fhs, ok
}

func parseMknod(r *xdr.Reader) (fhs [2][]byte, ok bool) {
	fhs[0], _, ok = parseDirOp(r)
	switch r.Uint32() { // ftype3
	case nf3Chr, nf3Blk:
		skipSattr(r)
		r.Uint64() // specdata3
	case nf3Sock, nf3Fifo:
		skipSattr(r)
	}
	return fhs, ok
}

func parseRename(r *xdr.Reader) (fhs [2][]byte, ok bool) {
	var ok2 bool
	fhs[0], _, ok = parseDirOp(r)
	fhs[1], _, ok2 = parseDirOp(r)
	return fhs, ok && ok2
}

func parseLink(r *xdr.Reader) (fhs [2][]byte, ok bool) {
	var ok2 bool
	fhs[0], ok = parseHandle(r)
	fhs[1], _, ok2 = parseDirOp(r)
	return fhs, ok && ok2
}

func parseCommit(r *xdr.Reader) (fhs [2][]byte, ok bool) {
	fhs[0], ok = parseHandle(r)
	r.Uint64() // offset
	r.Uint32() // count
	return fhs, ok
}
