package nfsd

import (
	"context"
	"net"
	"net/netip"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"sluice/export"
	"sluice/rpc"
	"sluice/rpc/xdr"
)

// The MOUNT protocol: version 3 (RFC 1813 appendix I) and version 1 (RFC 1094
// appendix A), which differs in the answer to MNT alone.

const (
	mountProgram = 100005

	mntPathLen    = 1024 // MNTPATHLEN, also DIRPATHLEN
	mountV1Handle = 32   // FHSIZE of version 1, fixed
)

// mountstat3; the values are those of nfsstat3 (and in version 1 of errno) that
// have the same names.
const (
	mnt3OK             = 0
	mnt3ErrNoent       = 2
	mnt3ErrIO          = 5
	mnt3ErrAcces       = 13
	mnt3ErrNotdir      = 20
	mnt3ErrNametoolong = 63
	mnt3ErrServerfault = 10006
)

// Mount returns the MOUNT program.
func (s *Server) Mount() rpc.Program {
	v := func(number uint32, mnt rpc.Handler) rpc.Version {
		return rpc.Version{Number: number, Procs: []rpc.Procedure{
			{Name: "NULL", Handle: rpc.Null},
			{Name: "MNT", Handle: mnt, MaxReply: 4 + 4 + nfs3FHSize + 4 + 8},
			{Name: "DUMP", Handle: s.dump},
			{Name: "UMNT", Handle: s.umnt},
			{Name: "UMNTALL", Handle: s.umntall},
			{Name: "EXPORT", Handle: s.exportProc},
		}}
	}
	v1 := v(1, mntV1)
	v1.Procs = append(v1.Procs, rpc.Procedure{Name: "EXPORTALL", Handle: s.exportProc})
	return rpc.Program{Number: mountProgram, Name: "mount", UDP: true, Versions: []rpc.Version{v1, v(3, mntV3)}}
}

// mntV3 is MNT. It walks file systems and may ask the name service, so it always
// runs on a waiting thread.
func mntV3(c *rpc.Call) rpc.Result {
	fh, e, status, res := mnt(c)
	if res != rpc.Done {
		return res
	}
	c.Reply = xdr.AppendUint32(c.Reply, status)
	if status != mnt3OK {
		return rpc.Done
	}
	c.Reply = xdr.AppendOpaque(c.Reply, fh)
	var flavors []uint32
	for _, f := range []uint32{rpc.AuthSys, rpc.AuthNone} {
		if _, ok := e.Flavor(f); ok {
			flavors = append(flavors, f)
		}
	}
	c.Reply = xdr.AppendUint32(c.Reply, uint32(len(flavors)))
	for _, f := range flavors {
		c.Reply = xdr.AppendUint32(c.Reply, f)
	}
	return rpc.Done
}

// mntV1 can only give handles of up to 32 bytes.
func mntV1(c *rpc.Call) rpc.Result {
	fh, _, status, res := mnt(c)
	if res != rpc.Done {
		return res
	}
	if status == mnt3OK && len(fh) > mountV1Handle {
		status = uint32(unix.EOPNOTSUPP)
	}
	c.Reply = xdr.AppendUint32(c.Reply, status)
	if status == mnt3OK {
		var fixed [mountV1Handle]byte
		copy(fixed[:], fh)
		c.Reply = append(c.Reply, fixed[:]...)
	}
	return rpc.Done
}

// mnt finds what is to be mounted.
func mnt(c *rpc.Call) (fh []byte, e *export.Entry, status uint32, res rpc.Result) {
	path := string(c.Args.Opaque(mntPathLen))
	if c.Args.Err() != nil {
		return nil, nil, 0, rpc.GarbageArgs
	}
	w := c.Thread.(*worker)
	if !c.MayBlock {
		if w.namesMatter(c, path) {
			c.WaitClass = classNames
		}
		return nil, nil, 0, rpc.Wait
	}
	fh, e, status = w.mount(c, path)
	if status == mnt3OK {
		w.srv.mounted.add(c.Peer.Addr(), path)
	}
	w.srv.log.Info("mount", "path", path, "client", c.Peer, "status", mountStatusName(status))
	return fh, e, status, rpc.Done
}

// namesMatter says whether MNT will have to ask the name service.
func (w *worker) namesMatter(c *rpc.Call, path string) bool {
	m := w.srv.shares.Load().matcher
	for p := range upwards(filepath.Clean(path)) {
		if x := m.Table().Export(p); x != nil {
			if e, known := m.Match(x, c.Peer.Addr()); e != nil || !known {
				return !known
			}
		}
	}
	return false
}

func (w *worker) mount(c *rpc.Call, path string) ([]byte, *export.Entry, uint32) {
	if w.become(privileged) != nfs3OK {
		return nil, nil, mnt3ErrServerfault
	}
	if w.freshMounts(c) != nfs3OK {
		return nil, nil, mnt3ErrServerfault
	}
	x, e, path := w.findExport(c.Peer.Addr(), path)
	if e == nil {
		return nil, nil, mnt3ErrAcces
	}
	// In this order in nfs-utils' get_rootfh (utils/mountd/mountd.c).
	sh, err := w.srv.shareAt(x)
	if err != nil {
		return nil, nil, mountStatus(err)
	}
	if w.srv.shares.Load().absent[e] {
		return nil, nil, mnt3ErrNoent
	}
	if sub := w.submountAt(x.Path, path); sub != nil {
		var st nfsstat3
		if e, st = w.match(c, w.srv.shares.Load(), sub); st != nfs3OK {
			return nil, nil, mnt3ErrAcces
		}
		sh, x = sub, nil
	}
	o, ok := e.Flavor(rpc.AuthSys)
	if !ok {
		o, ok = e.Flavor(rpc.AuthNone)
	}
	if !ok || o.Secure && c.Peer.Port() >= ipPortReserved {
		return nil, nil, mnt3ErrAcces
	}
	base := sh.path
	if x != nil {
		base = x.Path // of two paths to one directory, the one asked for
	}
	fh, err := w.walk(sh.vol, below(base, path))
	return fh, e, mountStatus(err)
}

// submountAt returns the share of the file system mounted nearest to a path, if
// that is below the export; nil if no mount lies between, or none that is served.
func (w *worker) submountAt(exported, path string) *share {
	set := w.srv.shares.Load()
	mounts := w.srv.mounts.Load()
	for p := range upwards(path) {
		if p == exported {
			return nil
		}
		if mounts.byPath[p] != nil {
			if sh := set.byPath[p]; sh != nil {
				return sh
			}
			return &share{path: p} // nobody's: no grants
		}
	}
	return nil
}

// findExport finds the export that path lies in, and the path as it is without
// symbolic links. A path is resolved as the server sees it; what comes out must
// be exported to the client, or the answer tells nothing about it.
func (w *worker) findExport(addr netip.Addr, path string) (*export.Export, *export.Entry, string) {
	if !strings.HasPrefix(path, "/") {
		return nil, nil, ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), resolveTimeout)
	defer cancel()
	m := w.srv.shares.Load().matcher
	path = filepath.Clean(path)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	x, e := m.Find(ctx, path, addr)
	return x, e, path
}

// walk goes down from a volume's root, one name at a time, and returns the
// handle of what is there. Neither symbolic links nor mounts are crossed.
func (w *worker) walk(v *volume, rel string) ([]byte, error) {
	fh := v.root
	if rel == "" {
		return fh, nil
	}
	top, err := w.srv.dirs.acquire(v)
	if err != nil {
		return nil, err
	}
	defer w.srv.dirs.release(v)
	dir := top
	defer func() {
		if dir != top {
			unix.Close(dir)
		}
	}()
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_XDEV}
	var st unix.Stat_t
	for name := range strings.SplitSeq(rel, "/") {
		fd, err := unix.Openat2(dir, name, &how)
		if err != nil {
			return nil, err
		}
		if dir != top {
			unix.Close(dir)
		}
		dir = fd
		if err := unix.Fstat(fd, &st); err != nil {
			return nil, err
		}
		if fh, err = w.srv.appendHandle(nil, v, fd, &w.kh, &st, bodyOf(fh)); err != nil {
			return nil, err
		}
	}
	if typ := st.Mode & unix.S_IFMT; typ != unix.S_IFDIR && typ != unix.S_IFREG {
		return nil, unix.ENOTDIR
	}
	return fh, nil
}

func mountStatus(err error) uint32 {
	switch statusOf(err) {
	case nfs3OK:
		return mnt3OK
	case nfs3ErrNoent:
		return mnt3ErrNoent
	case nfs3ErrNotdir:
		return mnt3ErrNotdir
	case nfs3ErrNametoolong:
		return mnt3ErrNametoolong
	}
	switch err {
	case unix.EXDEV, unix.ELOOP, unix.EACCES, unix.EPERM:
		return mnt3ErrAcces
	}
	return mnt3ErrIO
}

func mountStatusName(status uint32) string {
	switch status {
	case mnt3OK:
		return "ok"
	case mnt3ErrNoent:
		return "no such file or directory"
	case mnt3ErrAcces:
		return "not exported to this client"
	case mnt3ErrNotdir:
		return "not a directory"
	}
	return "failed"
}

// exportProc is EXPORT: for this machine itself every export with its clients; for
// others what they may mount, since who else may is none of their business.
func (s *Server) exportProc(c *rpc.Call) rpc.Result {
	all := isLocal(c.Peer.Addr())
	if !c.MayBlock {
		if !all {
			c.WaitClass = classNames
		}
		return rpc.Wait
	}
	ctx, cancel := context.WithTimeout(context.Background(), resolveTimeout)
	defer cancel()
	m := s.shares.Load().matcher
	b := c.Reply
	for _, x := range m.Table().Exports() {
		entries := x.Entries
		if !all {
			e := m.MatchWait(ctx, x, c.Peer.Addr())
			if e == nil {
				continue
			}
			entries = []*export.Entry{e}
		}
		b = xdr.AppendUint32(b, 1)
		b = xdr.AppendString(b, x.Path)
		for _, e := range entries {
			b = xdr.AppendUint32(b, 1)
			b = xdr.AppendString(b, e.Client.String())
		}
		b = xdr.AppendUint32(b, 0)
	}
	c.Reply = xdr.AppendUint32(b, 0)
	return rpc.Done
}

// isLocal says whether addr is one of this machine's own.
func isLocal(addr netip.Addr) bool {
	if addr.IsLoopback() {
		return true
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, a := range own {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().WithZone("") == addr.WithZone("") {
			return true
		}
	}
	return false
}

// dump is DUMP: who has mounted what, as far as clients have told.
func (s *Server) dump(c *rpc.Call) rpc.Result {
	b := c.Reply
	for _, m := range s.mounted.list() {
		b = xdr.AppendUint32(b, 1)
		b = xdr.AppendString(b, m.host.String())
		b = xdr.AppendString(b, m.path)
	}
	c.Reply = xdr.AppendUint32(b, 0)
	return rpc.Done
}

// umnt is UMNT. It has no result and cannot fail.
func (s *Server) umnt(c *rpc.Call) rpc.Result {
	path := string(c.Args.Opaque(mntPathLen))
	if c.Args.Err() != nil {
		return rpc.GarbageArgs
	}
	s.mounted.remove(c.Peer.Addr(), path)
	return rpc.Done
}

// umntall is UMNTALL.
func (s *Server) umntall(c *rpc.Call) rpc.Result {
	s.mounted.removeAll(c.Peer.Addr())
	return rpc.Done
}
