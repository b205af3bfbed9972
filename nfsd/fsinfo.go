package nfsd

import (
	"math"

	"golang.org/x/sys/unix"

	"sluice/rpc"
	"sluice/rpc/xdr"
)

// wtmax is what FSINFO says of WRITE. Every WRITE is refused; the number only
// bounds the records that clients send.
const wtmax = 64 << 10

// aboutFS wraps FSSTAT, FSINFO and PATHCONF: a handle in, attributes and a body
// out.
func aboutFS(body func(w *worker, t *target, b []byte) ([]byte, error)) rpc.Handler {
	return func(c *rpc.Call) rpc.Result {
		fh, ok := parseHandle(&c.Args)
		if !ok {
			return rpc.GarbageArgs
		}
		w := c.Thread.(*worker)
		if !c.MayBlock {
			return w.waitFor(c, fh)
		}
		t, st := w.resolve(c, fh)
		if st != nfs3OK {
			c.Reply = appendNoAttr(appendStatus(c.Reply, st))
			return rpc.Done
		}
		defer t.release()
		mark := len(c.Reply)
		b, err := body(w, t, appendPostOp(appendStatus(c.Reply, nfs3OK), &t.attr))
		if err != nil {
			b = appendPostOp(appendStatus(c.Reply[:mark], statusOf(err)), &t.attr)
		}
		c.Reply = b
		return rpc.Done
	}
}

// fsstat is FSSTAT (section 3.3.18).
func fsstat(_ *worker, t *target, b []byte) ([]byte, error) {
	var s unix.Statfs_t
	if err := unix.Fstatfs(t.file.Path(), &s); err != nil {
		return b, err
	}
	size := uint64(s.Bsize)
	b = xdr.AppendUint64(b, s.Blocks*size)
	b = xdr.AppendUint64(b, s.Bfree*size)
	b = xdr.AppendUint64(b, s.Bavail*size)
	b = xdr.AppendUint64(b, s.Files)
	b = xdr.AppendUint64(b, s.Ffree)
	b = xdr.AppendUint64(b, s.Ffree)
	return xdr.AppendUint32(b, 0), nil // invarsec: may change at any time
}

// fsinfo is FSINFO (section 3.3.19).
func fsinfo(w *worker, _ *target, b []byte) ([]byte, error) {
	rtmax := uint32(w.srv.cfg.MaxRead)
	b = xdr.AppendUint32(b, rtmax)
	b = xdr.AppendUint32(b, rtmax) // rtpref
	b = xdr.AppendUint32(b, 4096)  // rtmult: a page
	b = xdr.AppendUint32(b, wtmax)
	b = xdr.AppendUint32(b, wtmax) // wtpref
	b = xdr.AppendUint32(b, 4096)  // wtmult
	b = xdr.AppendUint32(b, maxReaddir)
	b = xdr.AppendUint64(b, math.MaxInt64) // maxfilesize
	b = xdr.AppendUint32(b, 0)             // time_delta: seconds
	b = xdr.AppendUint32(b, 1)             // and nanoseconds
	return xdr.AppendUint32(b, fsf3Link|fsf3Symlink|fsf3Homogeneous|fsf3CanSetTime), nil
}

// pathconf is PATHCONF (section 3.3.20).
func pathconf(_ *worker, _ *target, b []byte) ([]byte, error) {
	b = xdr.AppendUint32(b, 32000) // linkmax: what Linux nfsd says
	b = xdr.AppendUint32(b, nfs3MaxName)
	b = xdr.AppendBool(b, true)         // no_trunc: a name too long is an error
	b = xdr.AppendBool(b, true)         // chown_restricted
	b = xdr.AppendBool(b, false)        // case_insensitive
	return xdr.AppendBool(b, true), nil // case_preserving
}
