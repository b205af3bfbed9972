package nfsd

import (
	"encoding/binary"
	"math"

	"golang.org/x/sys/unix"

	"sluice/ioctx"
	"sluice/nfsd/sendpath"
	"sluice/rpc"
	"sluice/rpc/xdr"
)

// readProc is READ (section 3.3.6).
func readProc(c *rpc.Call) rpc.Result {
	a, ok := parseRead(&c.Args)
	if !ok {
		return rpc.GarbageArgs
	}
	w := c.Thread.(*worker)
	t, st := w.resolve(c, a.fh)
	if st == wait {
		return rpc.Wait
	}
	if st != nfs3OK {
		c.Reply = appendNoAttr(appendStatus(c.Reply, st))
		return rpc.Done
	}
	defer t.release()
	if st = w.readable(t); st != nfs3OK {
		c.Reply = appendPostOp(appendStatus(c.Reply, st), &t.attr)
		return rpc.Done
	}
	return w.read(c, t, a)
}

// readable checks type and permission.
func (w *worker) readable(t *target) nfsstat3 {
	switch t.obj.typ {
	case unix.S_IFREG:
		return w.checkRead(t)
	case unix.S_IFDIR:
		return nfs3ErrIsdir
	}
	return nfs3ErrInval
}

// clamp cuts a READ to what the server and the file can give.
func clamp(a readArgs, size int64, maxRead int) (off int64, n int) {
	if a.offset > math.MaxInt64 || int64(a.offset) >= size {
		return 0, 0
	}
	off = int64(a.offset)
	return off, int(min(int64(a.count), int64(maxRead), size-off))
}

// read answers with data. What is not in the page cache is brought there first:
// by the I/O context, or on a waiting thread where that fails.
func (w *worker) read(c *rpc.Call, t *target, a readArgs) rpc.Result {
	off, n := clamp(a, t.attr.Size, w.srv.cfg.MaxRead)
	if n == 0 {
		c.Reply = appendReadOK(c.Reply, &t.attr, 0, a.offset >= uint64(t.attr.Size))
		return rpc.Done
	}
	if st := w.become(privileged); st != nfs3OK {
		return rpc.SystemErr
	}
	fd, err := t.file.Data()
	if err != nil {
		c.Reply = appendPostOp(appendStatus(c.Reply, statusOf(err)), &t.attr)
		return rpc.Done
	}
	r := ioctx.Range{File: t.file, FD: fd, Dev: t.attr.Dev, Off: off, N: n, Size: t.attr.Size, Lane: w.lane}
	if c.MayBlock && n > w.srv.send.SmallLimit() && !t.vol.slow && c.Attempt < maxFetches {
		// The server thread sends it from the page cache, so that a reply which
		// nobody takes holds nothing here.
		if w.srv.io.Fetch(fd, off, n) == nil {
			return rpc.Again
		}
	}
	if n <= w.srv.send.SmallLimit() {
		return w.readInline(c, t, &r)
	}
	if !c.MayBlock && !t.file.InMemory() && !w.srv.io.Have(&r) {
		return w.miss(c, t, &r)
	}
	return w.readPayload(c, t, &r)
}

// miss has the I/O context bring in what the page cache lacks; the call needs no
// thread meanwhile. A call that comes back and still lacks it goes to a waiting
// thread, which also finds out what is wrong with the disk.
func (w *worker) miss(c *rpc.Call, t *target, r *ioctx.Range) rpc.Result {
	parked, gaveUp := false, c.GaveUp
	if c.Attempt == 0 && !t.vol.slow {
		parked, gaveUp = w.srv.io.Miss(r, func() ioctx.Waiter { return c.Park() })
	}
	if gaveUp {
		c.Reply = appendPostOp(appendStatus(c.Reply, nfs3ErrJukebox), &t.attr)
		return rpc.Done
	}
	if parked {
		return rpc.Parked
	}
	return rpc.Wait
}

// maxFetches is how often a call's data is fetched before it is sent from where
// it was read: the page cache may lose it at once, or not keep it at all.
const maxFetches = 3

func (w *worker) readPayload(c *rpc.Call, t *target, r *ioctx.Range) rpc.Result {
	p, err := w.srv.send.Read(w.ring, r.FD, r.Off, r.N, c.MayBlock)
	if err != nil {
		c.Reply = appendPostOp(appendStatus(c.Reply, statusOf(err)), &t.attr)
		return rpc.Done
	}
	if p == nil {
		r.N = min(r.N, sendpath.InlineRead)
		return w.readInline(c, t, r)
	}
	got := p.Len()
	w.recheckSize(c, t, got < r.N)
	c.Reply = appendReadOK(c.Reply, &t.attr, got, r.Off+int64(got) >= t.attr.Size)
	if got == 0 {
		p.Release()
		return rpc.Done
	}
	c.Payload = p
	if u, ok := p.(sendpath.Unfilled); ok {
		u.Keep(t.file)
		t.file = nil
	}
	return rpc.Done
}

// amendRead is sendpath.Config.Amend: head ends with what appendReadOK has
// appended behind the header of an accepted reply.
func amendRead(head []byte, fd int, off int64, n int, err error) []byte {
	const record, results = 4 + 24, 4 + 4 + fattrLen + 12
	mark := len(head) - results - record
	var a attr
	a.fsid = binary.BigEndian.Uint64(head[mark+record+4+4+44:]) // see appendFattr
	if st := fstatMayBlock(fd, &a.Stat_t); st != nil && err == nil {
		err = st
	}
	b := head[:mark+record]
	if err != nil {
		n = 0
		b = appendNoAttr(appendStatus(b, statusOf(err)))
	} else {
		b = appendReadOK(b, &a, n, off+int64(n) >= a.Size)
	}
	rpc.PutMark(b[mark:], len(b)-mark-4+n+(-n&3))
	return b
}

// readInline reads into the batch.
func (w *worker) readInline(c *rpc.Call, t *target, r *ioctx.Range) rpc.Result {
	mark := len(c.Reply)
	c.Reply = appendReadOK(c.Reply, &t.attr, r.N, r.Off+int64(r.N) >= t.attr.Size)
	data := len(c.Reply)
	c.Reply = c.Reply[:data+r.N]
	var got int
	var err error
	if c.MayBlock || t.file.InMemory() {
		got, err = ioctx.Read(r.FD, c.Reply[data:], r.Off)
	} else {
		got, err = w.srv.io.ReadNow(r, c.Reply[data:])
	}
	if err != nil {
		c.Reply = c.Reply[:mark]
		if !c.MayBlock { // it has to wait for the disk, or the file shrank
			return w.miss(c, t, r)
		}
		c.Reply = appendPostOp(appendStatus(c.Reply, statusOf(err)), &t.attr)
		return rpc.Done
	}
	if got < r.N { // the file has become shorter
		w.recheckSize(c, t, true)
		appendReadOK(c.Reply[:mark], &t.attr, got, r.Off+int64(got) >= t.attr.Size)
	}
	c.Reply = xdr.AppendPad(c.Reply[:data+got], got)
	w.srv.send.Inline.Add(1)
	return rpc.Done
}

// recheckSize asks for the attributes again when a read fell short, so that the
// size in the reply agrees with its eof.
func (w *worker) recheckSize(c *rpc.Call, t *target, short bool) {
	if short {
		// The old attributes stay if this fails.
		_ = w.stat(c, t.file.Path(), &t.attr.Stat_t)
	}
}

// appendReadOK appends a READ3resok up to the length of the data.
func appendReadOK(b []byte, a *attr, n int, eof bool) []byte {
	b = appendPostOp(appendStatus(b, nfs3OK), a)
	b = xdr.AppendUint32(b, uint32(n))
	b = xdr.AppendBool(b, eof)
	return xdr.AppendUint32(b, uint32(n))
}
