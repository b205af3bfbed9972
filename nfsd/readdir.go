package nfsd

import (
	"bytes"
	"encoding/binary"

	"golang.org/x/sys/unix"

	"sluice/rpc"
	"sluice/rpc/xdr"
)

// maxReaddir is the longest READDIR or READDIRPLUS result in bytes, whatever the
// client would take.
const maxReaddir = 64 << 10

// cookieVerf is constant and any is accepted: cookies are the file system's own
// and stay good while entries come and go. Rejecting them when the directory
// has changed made clients list it from the start, again and again.
var cookieVerf [nfs3CookieVerf]byte

func readdirProc(c *rpc.Call) rpc.Result     { return list(c, false) }
func readdirplusProc(c *rpc.Call) rpc.Result { return list(c, true) }

// list is READDIR and READDIRPLUS (sections 3.3.16 and 3.3.17). Both read the
// directory from the cookie on at each call and keep nothing between calls.
func list(c *rpc.Call, plus bool) rpc.Result {
	a, ok := parseReaddir(&c.Args, plus)
	if !ok {
		return rpc.GarbageArgs
	}
	w := c.Thread.(*worker)
	if !c.MayBlock {
		return w.waitFor(c, a.fh) // no way to know whether the directory is cached
	}
	t, st := w.resolve(c, a.fh)
	if st != nfs3OK {
		c.Reply = appendNoAttr(appendStatus(c.Reply, st))
		return rpc.Done
	}
	defer t.release()
	mark := len(c.Reply)
	if st = w.list(c, t, a, plus); st != nfs3OK {
		c.Reply = appendPostOp(appendStatus(c.Reply[:mark], st), &t.attr)
	}
	return rpc.Done
}

// listing is a result being filled.
type listing struct {
	w       *worker
	dir     *target
	fd      int
	plus    bool
	b       []byte
	limit   int // of len(b), with the end of the list still to come
	names   int // bytes of names, ids and cookies, which dircount bounds
	namesAt int // their limit
	entries int
}

const listEnd = 8 // end of list, eof

func (w *worker) list(c *rpc.Call, t *target, a readdirArgs, plus bool) nfsstat3 {
	if !t.isDir() {
		return nfs3ErrNotdir
	}
	if plus && !t.adm.entry.Options.ReaddirPlus {
		return nfs3ErrNotsupp
	}
	if plus && t.share.crosses {
		if st := w.freshMounts(c); st != nfs3OK {
			return st
		}
	}
	fd, st := w.openDir(t, a.cookie)
	if st != nfs3OK {
		return st
	}
	defer unix.Close(fd)
	l := &w.listing
	*l = listing{w: w, dir: t, fd: fd, plus: plus, namesAt: maxReaddir}
	l.limit = len(c.Reply) + min(int(min(a.maxcount, maxReaddir)), maxReaddir) - listEnd
	if plus && a.dircount > 0 {
		l.namesAt = int(min(a.dircount, maxReaddir))
	}
	l.b = appendPostOp(appendStatus(c.Reply, nfs3OK), &t.attr)
	l.b = append(l.b, cookieVerf[:]...)
	eof, err := l.fill(int(min(a.maxcount, maxReaddir)))
	if err != nil {
		return statusOf(err)
	}
	if len(l.b) > l.limit || l.entries == 0 && !eof {
		return nfs3ErrToosmall
	}
	c.Reply = xdr.AppendBool(xdr.AppendUint32(l.b, 0), eof)
	return nfs3OK
}

// openDir opens a directory for reading as the caller, at a cookie.
func (w *worker) openDir(t *target, cookie uint64) (int, nfsstat3) {
	if st := w.become(t.id); st != nfs3OK {
		return -1, st
	}
	fd, err := open(w.procPath(t.file.Path()), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NONBLOCK)
	if err != nil {
		return -1, statusOf(err)
	}
	if cookie != 0 {
		if _, err := unix.Seek(fd, int64(cookie), unix.SEEK_SET); err != nil || int64(cookie) < 0 {
			unix.Close(fd)
			return -1, nfs3ErrBadCookie
		}
	}
	return fd, nfs3OK
}

// fill reads entries until the directory ends or the result is full.
func (l *listing) fill(want int) (eof bool, err error) {
	// A directory entry of the kernel is about as long as one on the wire, so
	// reading as much as fits wastes little.
	buf := l.w.directoryBuffer()
	buf = buf[:min(len(buf), max(want, 1<<10))]
	for {
		n, err := getdents(l.fd, buf)
		if err != nil {
			return false, err
		}
		if n == 0 {
			return true, nil
		}
		for b := buf[:n]; len(b) > 0; {
			var d dirent
			d, b = nextDirent(b)
			if !l.add(d) {
				return false, nil
			}
		}
	}
}

// add appends an entry; false means that it does not fit.
func (l *listing) add(d dirent) bool {
	if len(d.name) > nfs3MaxName {
		return true // a client could not ask for it
	}
	size := 8 + 4 + len(d.name) + xdr.Pad(len(d.name)) + 8
	if l.names+size > l.namesAt && l.entries > 0 {
		return false
	}
	mark := len(l.b)
	b := xdr.AppendUint32(l.b, 1)
	b = xdr.AppendUint64(b, l.fileid(d))
	b = xdr.AppendOpaque(b, d.name)
	b = xdr.AppendUint64(b, d.off)
	if l.plus {
		b = l.w.appendPlus(b, l, d)
	}
	if len(b) > l.limit {
		l.b = b[:mark]
		return false
	}
	l.b = b
	l.names += size
	l.entries++
	return true
}

// fileid hides the inode number of what is above the export.
func (l *listing) fileid(d dirent) uint64 {
	if string(d.name) == ".." && bytes.Equal(l.dir.file.Handle(), l.dir.vol.root) {
		return l.dir.attr.Ino
	}
	return d.ino
}

// appendPlus appends name_attributes and name_handle. Both are optional; they
// are left out for what is not there any more, what the caller may not look up,
// and what has something mounted on it.
func (w *worker) appendPlus(b []byte, l *listing, d dirent) []byte {
	mark := len(b)
	switch string(d.name) {
	case ".":
		b = appendPostOp(b, &l.dir.attr)
		return xdr.AppendOpaque(xdr.AppendUint32(b, 1), l.dir.file.Handle())
	case "..":
		return appendNoAttr(appendNoAttr(b)) // clients look it up if they care
	}
	w.how = unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_XDEV}
	w.name[copy(w.name[:], d.name)] = 0
	fd, err := openat2(l.fd, &w.name[0], &w.how)
	if err != nil {
		return appendNoAttr(appendNoAttr(b))
	}
	defer unix.Close(fd)
	if fstatMayBlock(fd, &w.child.Stat_t) != nil {
		return appendNoAttr(appendNoAttr(b))
	}
	if l.dir.share.crosses && w.srv.shares.Load().covered[coverKey{l.dir.vol, w.child.Ino}] != nil {
		return appendNoAttr(appendNoAttr(b)) // LOOKUP tells who may cross
	}
	w.child.fsid = l.dir.vol.fsid
	handle, err := w.childHandle(l.dir, l.fd, fd, &w.child.Stat_t, bodyOf(l.dir.file.Handle()))
	if err != nil {
		return appendNoAttr(appendNoAttr(b[:mark]))
	}
	b = appendPostOp(b, &w.child)
	return xdr.AppendOpaque(xdr.AppendUint32(b, 1), handle)
}

// directoryBuffer returns the worker's buffer for entries, which threads that
// never list anything do without.
func (w *worker) directoryBuffer() []byte {
	if w.dirbuf == nil {
		w.dirbuf = make([]byte, maxReaddir)
	}
	return w.dirbuf
}

// dirent is struct linux_dirent64 (getdents64(2)).
type dirent struct {
	ino  uint64
	off  uint64 // where the next entry is: the cookie
	typ  uint8
	name []byte
}

// nextDirent takes the first entry from what getdents64 returned.
func nextDirent(b []byte) (d dirent, rest []byte) {
	ne := binary.NativeEndian
	d.ino, d.off, d.typ = ne.Uint64(b), ne.Uint64(b[8:]), b[18]
	n := ne.Uint16(b[16:])
	d.name = b[19:n]
	if i := bytes.IndexByte(d.name, 0); i >= 0 {
		d.name = d.name[:i]
	}
	return d, b[n:]
}
