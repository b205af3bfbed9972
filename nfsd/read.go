package nfsd

import (
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

// read answers with data. What has to come from a disk is fetched on a waiting
// thread first.
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
	if n <= w.srv.send.SmallLimit() {
		return w.readInline(c, t, fd, off, n)
	}
	if !c.MayBlock {
		if !t.file.InMemory() && !ioctx.Resident(fd, off, n) {
			return rpc.Wait
		}
	} else if !t.vol.slow && c.Attempt < maxFetches {
		// The server thread sends it from the page cache, so that a reply which
		// nobody takes holds nothing here.
		if w.srv.io.Fetch(fd, off, n) == nil {
			return rpc.Again
		}
	}
	return w.readPayload(c, t, fd, off, n)
}

// maxFetches is how often a call's data is fetched before it is sent from where
// it was read: the page cache may lose it at once, or not keep it at all.
const maxFetches = 3

func (w *worker) readPayload(c *rpc.Call, t *target, fd int, off int64, n int) rpc.Result {
	p, err := w.srv.send.Read(fd, off, n)
	if err != nil {
		c.Reply = appendPostOp(appendStatus(c.Reply, statusOf(err)), &t.attr)
		return rpc.Done
	}
	if p == nil {
		return w.readInline(c, t, fd, off, min(n, sendpath.InlineRead))
	}
	got := p.Len()
	w.recheckSize(c, t, got < n)
	c.Reply = appendReadOK(c.Reply, &t.attr, got, off+int64(got) >= t.attr.Size)
	if got == 0 {
		p.Release()
	} else {
		c.Payload = p
	}
	return rpc.Done
}

// readInline reads into the batch.
func (w *worker) readInline(c *rpc.Call, t *target, fd int, off int64, n int) rpc.Result {
	mark := len(c.Reply)
	c.Reply = appendReadOK(c.Reply, &t.attr, n, off+int64(n) >= t.attr.Size)
	data := len(c.Reply)
	c.Reply = c.Reply[:data+n]
	read := ioctx.ReadNow
	if c.MayBlock || t.file.InMemory() {
		read = ioctx.Read
	}
	got, err := read(fd, c.Reply[data:], off)
	if err != nil {
		c.Reply = c.Reply[:mark]
		if !c.MayBlock {
			return rpc.Wait // for the disk, or for the end of a file that shrank
		}
		c.Reply = appendPostOp(appendStatus(c.Reply, statusOf(err)), &t.attr)
		return rpc.Done
	}
	if got < n { // the file has become shorter
		w.recheckSize(c, t, true)
		appendReadOK(c.Reply[:mark], &t.attr, got, off+int64(got) >= t.attr.Size)
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
