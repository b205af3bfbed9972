package nfsd

import (
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"sluice/export"
	"sluice/rpc"
)

// File systems mounted below an export: nohide and crossmnt of exports(5).
//
// What Linux does, in nfsd_cross_mnt (fs/nfsd/vfs.c) and nfs-utils' lookup_export
// (support/export/cache.c): the export that holds at a mount point is the nearest
// one with an entry for the client, whose path is the mount point itself or whose
// entry has crossmnt. A look-up crosses into the mount if that export has nohide,
// or the one it comes from crossmnt; else the client sees the directory that the
// mount hides.

// maxSubmounts bounds the file systems that are served by crossmnt alone.
const maxSubmounts = 4096

// addSubmounts adds a share for each file system mounted below an export with
// crossmnt, and lets those exports grant the exports mounted below them too.
func (b *setBuilder) addSubmounts() {
	if !b.anyCrossmnt() {
		return
	}
	var paths []string
	for p := range b.with.mounts.byPath {
		paths = append(paths, p)
	}
	slices.Sort(paths) // the order decides between two mounts of one directory
	added := 0
	for _, p := range paths {
		grants := b.grantsBelow(p)
		if len(grants) == 0 {
			continue
		}
		if sh := b.set.byPath[p]; sh != nil {
			sh.grants = append(sh.grants, grants...)
			continue
		}
		if added++; added > maxSubmounts {
			b.s.log.Warn("too many file systems below exports with crossmnt; the rest stays hidden", "most", maxSubmounts, "path", p)
			return
		}
		b.addSubmount(p, grants)
	}
}

func (b *setBuilder) anyCrossmnt() bool {
	return slices.ContainsFunc(b.set.matcher.Table().Exports(), hasCrossmnt)
}

func hasCrossmnt(x *export.Export) bool {
	return slices.ContainsFunc(x.Entries, func(e *export.Entry) bool { return e.Options.CrossMount })
}

func hasNohide(x *export.Export) bool {
	return slices.ContainsFunc(x.Entries, func(e *export.Entry) bool { return e.Options.NoHide })
}

func hasSubtreeCheck(x *export.Export) bool {
	return slices.ContainsFunc(x.Entries, func(e *export.Entry) bool { return e.Options.SubtreeCheck })
}

// grantsBelow are the exports above a mount point that have crossmnt.
func (b *setBuilder) grantsBelow(p string) []grant {
	var grants []grant
	for q := range upwards(path.Dir(p)) {
		if x := b.set.matcher.Table().Export(q); x != nil && hasCrossmnt(x) {
			grants = append(grants, grant{x, true})
		}
		if q == p { // "/" is its own parent
			break
		}
	}
	return grants
}

// remoteTypes are not even opened: they would not be served by crossmnt, and who
// is behind them may be gone.
var remoteTypes = map[string]bool{"nfs": true, "nfs4": true, "cifs": true, "smb3": true, "ceph": true, "afs": true,
	"9p": true, "autofs": true}

// addSubmount adds the share of a mount point. What is hidden under another
// mount is not to be had.
func (b *setBuilder) addSubmount(p string, grants []grant) {
	if p == "/" || remoteTypes[b.with.mounts.byPath[p].fstype] || strings.HasPrefix(b.with.mounts.byPath[p].fstype, "fuse") {
		return
	}
	vol := b.reusable(p, export.FSID{})
	if vol == nil {
		var err error
		if vol, err = b.with.describe(p, export.FSID{}); err != nil {
			return // a file, or nothing that could be served
		}
	}
	if !vol.inherits || vol.mount != b.with.mounts.byPath[p].id {
		return
	}
	b.add(&share{path: p, vol: vol, grants: grants})
}

// link finds out which share is mounted in which. Only where a mount may be
// crossed is the directory that it hides looked up.
func (b *setBuilder) link() {
	b.mark()
	for p, sh := range b.set.byPath {
		m := b.with.mounts.byPath[p]
		if m == nil || p == "/" || b.mountAt[p] != m.id {
			continue
		}
		for q := range upwards(path.Dir(p)) {
			up := b.set.byPath[q]
			if up == nil || up.vol.mount != m.parent || !mayCross(up, sh) {
				continue
			}
			sh.above = append(sh.above, up)
			if ino, ok := b.hidden(up, q, p); ok {
				b.set.covered[coverKey{up.vol, ino}] = sh
			}
		}
	}
}

// mark sums up what the entries of a share want: above all whether a mount may be
// crossed in it, now or once there is one.
func (b *setBuilder) mark() {
	for p, sh := range b.set.byPath {
		for _, g := range sh.grants {
			sh.crosses = sh.crosses || hasCrossmnt(g.x)
			sh.subtree = sh.subtree || hasSubtreeCheck(g.x)
			if g.below || !hasNohide(g.x) {
				continue
			}
			for q := range upwards(path.Dir(p)) {
				if up := b.set.byPath[q]; up != nil {
					up.crosses = true
				}
			}
		}
	}
}

// mayCross says whether any client can get from one share into the other.
func mayCross(from, to *share) bool {
	cross := func(g grant) bool { return hasCrossmnt(g.x) }
	hide := func(g grant) bool { return !g.below && hasNohide(g.x) }
	return slices.ContainsFunc(from.grants, cross) || slices.ContainsFunc(to.grants, hide)
}

// hidden returns the inode of the directory under the mount point p, in the share
// at q. Without a mount of our own it cannot be seen; see crossByPath.
func (b *setBuilder) hidden(up *share, q, p string) (ino uint64, ok bool) {
	dir, err := b.s.dirs.acquire(up.vol)
	if err != nil {
		return 0, false
	}
	defer b.s.dirs.release(up.vol)
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_SYMLINKS}
	fd, err := unix.Openat2(dir, below(q, p), &how)
	if err != nil {
		return 0, false
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if fstatMayBlock(fd, &st) != nil {
		return 0, false
	}
	return st.Ino, true
}

// below is the path p relative to the directory dir that it lies in.
func below(dir, p string) string { return strings.Trim(strings.TrimPrefix(p, dir), "/") }

// freshMounts says whether what is known of mounts still holds, and sees to it
// if it may wait.
func (w *worker) freshMounts(c *rpc.Call) nfsstat3 {
	if !w.srv.mountWatch.changed() {
		return nfs3OK
	}
	if !c.MayBlock {
		return wait
	}
	if st := w.become(privileged); st != nfs3OK {
		return st
	}
	w.srv.refreshMounts()
	return nfs3OK
}

// cross goes on from a directory that LOOKUP found into what is mounted on it,
// if the client may, and returns what it then finds.
func (w *worker) cross(c *rpc.Call, dir *target, fh []byte) ([]byte, nfsstat3) {
	set := w.srv.shares.Load()
	sub := set.covered[coverKey{dir.vol, w.child.Ino}]
	if sub == nil {
		return fh, nfs3OK
	}
	return w.enter(c, set, dir, sub, fh)
}

// crossByPath is cross where the directory itself is out of reach, because the
// mount on it is seen: without a mount of our own (openClone).
func (w *worker) crossByPath(c *rpc.Call, dir *target, name []byte) ([]byte, nfsstat3) {
	if !dir.share.crosses {
		return nil, nfs3ErrAcces
	}
	if !c.MayBlock {
		return nil, wait
	}
	at, err := readPath(dir.file.Path())
	if err != nil {
		return nil, statusOf(err)
	}
	set := w.srv.shares.Load()
	sub := set.byPath[path.Join(at, string(name))]
	if sub == nil || !slices.ContainsFunc(sub.above, func(up *share) bool { return up.vol == dir.vol }) {
		return nil, nfs3ErrAcces
	}
	fh, st := w.enter(c, set, dir, sub, nil)
	if st == nfs3OK && fh == nil {
		st = nfs3ErrAcces
	}
	return fh, st
}

// enter takes the client from dir to the root of a share mounted there. Where it
// may not go, it stays with what is hidden.
func (w *worker) enter(c *rpc.Call, set *shareSet, dir *target, sub *share, hidden []byte) ([]byte, nfsstat3) {
	a, _, st := w.admit(c, set, sub)
	switch {
	case st == nfs3ErrStale: // not exported to the client
		return hidden, nfs3OK
	case st != nfs3OK:
		return nil, st
	case !dir.adm.entry.Options.CrossMount && !a.entry.Options.NoHide:
		return hidden, nfs3OK
	}
	if st := w.look(c, sub, sub.vol.root); st != nfs3OK {
		return nil, st
	}
	return sub.vol.root, nfs3OK
}

// look fills w.child with the attributes of a handle's object.
func (w *worker) look(c *rpc.Call, sh *share, fh []byte) nfsstat3 {
	t := target{share: sh, vol: sh.vol}
	if st := w.openHandle(c, fh, &t); st != nfs3OK {
		return st
	}
	defer t.release()
	if st := w.getattr(c, &t); st != nfs3OK {
		return st
	}
	w.child = t.attr
	return nfs3OK
}

// leave is LOOKUP of ".." in the root of a share: the parent of the directory
// that it is mounted on, where the client may go, else the root itself.
func (w *worker) leave(c *rpc.Call, dir *target) ([]byte, nfsstat3) {
	set := w.srv.shares.Load()
	for _, up := range dir.share.above {
		a, _, st := w.admit(c, set, up)
		if st == wait {
			return nil, wait
		}
		if st != nfs3OK || !a.entry.Options.CrossMount && !dir.adm.entry.Options.NoHide {
			continue
		}
		if !c.MayBlock {
			return nil, wait
		}
		if st := w.become(privileged); st != nfs3OK {
			return nil, st
		}
		fh, err := w.walk(up.vol, below(up.path, path.Dir(dir.share.path)))
		if err != nil {
			continue
		}
		if st := w.look(c, up, fh); st != nfs3OK {
			return nil, st
		}
		return fh, nfs3OK
	}
	w.child = dir.attr
	return dir.file.Handle(), nfs3OK
}

// readPath is the path of an open object as the kernel has it now.
func readPath(fd int) (string, error) { return os.Readlink(fdPath(fd)) }
