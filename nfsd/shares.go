package nfsd

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"sluice/export"
	"sluice/ioctx"
	"sluice/rpc"
)

// share is an export with the volume that it gives access to.
type share struct {
	x   *export.Export
	vol *volume
}

// shareSet is the table of exports in force. It never changes; a reload makes
// another.
type shareSet struct {
	matcher *export.Matcher
	byID    map[uint64]*share
	byPath  map[string]*share
}

// SetExports puts a table of exports in force, in one step: calls under way end
// as they began. Exports whose directory cannot be opened are left out with a
// warning, and tried again when a client mounts them.
func (s *Server) SetExports(m *export.Matcher) {
	s.sharesMu.Lock()
	defer s.sharesMu.Unlock()
	s.setLocked(m, nil)
}

// Exports lists the exports that are served now: those of the table whose
// directory could be opened.
func (s *Server) Exports() []*export.Export {
	set := s.shares.Load()
	var out []*export.Export
	for _, x := range set.matcher.Table().Exports() {
		if set.byPath[x.Path] != nil {
			out = append(out, x)
		}
	}
	return out
}

// setLocked builds the set. Volumes of the old set are kept where the export
// names the same thing, except renew.
func (s *Server) setLocked(m *export.Matcher, renew *volume) {
	old := s.shares.Load()
	set := &shareSet{matcher: m, byID: make(map[uint64]*share), byPath: make(map[string]*share)}
	kept := make(map[*volume]bool)
	for _, x := range m.Table().Exports() {
		vol := old.reusable(x)
		if vol == nil || vol == renew {
			var err error
			if vol, err = s.openVolume(x); err != nil {
				s.log.Warn("export left out until its directory can be opened", "path", x.Path, "error", err)
				continue
			}
		}
		if other := set.byID[vol.id]; other != nil {
			s.log.Error("export left out: it has the same fsid as another", "path", x.Path, "other", other.x.Path)
			continue
		}
		kept[vol] = true
		sh := &share{x, vol}
		set.byID[vol.id], set.byPath[x.Path] = sh, sh
	}
	s.shares.Store(set)
	s.retire(old, kept)
}

// reusable returns the volume of an export that names the same directory in the
// same way.
func (set *shareSet) reusable(x *export.Export) *volume {
	if set == nil {
		return nil
	}
	sh := set.byPath[x.Path]
	if sh == nil || sh.x.Entries[0].Options.FSID != x.Entries[0].Options.FSID {
		return nil
	}
	return sh.vol
}

// retire closes what the new set does not use. Calls under way may still hold a
// volume, so its descriptor is closed a while later.
func (s *Server) retire(old *shareSet, kept map[*volume]bool) {
	if old == nil {
		return
	}
	var gone []*volume
	for _, sh := range old.byID {
		if !kept[sh.vol] {
			gone = append(gone, sh.vol)
		}
	}
	if len(gone) == 0 {
		return
	}
	s.io.Files.DropIf(func(f *ioctx.File) bool { return slices.Contains(gone, f.Value.(*object).vol) })
	time.AfterFunc(retireAfter, func() {
		for _, v := range gone {
			v.close()
		}
	})
}

// retireAfter is longer than any call holds a volume without waiting on it.
const retireAfter = time.Minute

// shareAt returns the share of an export, opening the directory again if it was
// not there before or something else is mounted there now. It may wait.
func (s *Server) shareAt(x *export.Export) (*share, error) {
	set := s.shares.Load()
	sh := set.byPath[x.Path]
	var st unix.Stat_t
	if err := unix.Stat(x.Path, &st); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil, unix.ENOTDIR
	}
	if sh != nil && sh.vol.dev == st.Dev && sh.vol.ino == st.Ino {
		return sh, nil
	}
	s.sharesMu.Lock()
	defer s.sharesMu.Unlock()
	set = s.shares.Load()
	var renew *volume
	if sh := set.byPath[x.Path]; sh != nil {
		if sh.vol.dev == st.Dev && sh.vol.ino == st.Ino {
			return sh, nil // another thread was here first
		}
		renew = sh.vol
	}
	s.setLocked(set.matcher, renew)
	if sh = s.shares.Load().byPath[x.Path]; sh == nil {
		return nil, fs.ErrNotExist
	}
	return sh, nil
}

// connState is what the server remembers of a connection, so that a READ need
// not look its caller up again.
type connState struct {
	admissions [4]atomic.Pointer[admission]
	next       atomic.Uint32
}

// admission is the entry of an export that holds for the connection's peer,
// under one table of exports.
type admission struct {
	set   *shareSet
	share *share
	// sys and none are what the entry says of callers with these flavours, or nil.
	sys, none *export.FlavorOptions
	// last is the latest caller and who he is here.
	last atomic.Pointer[caller]
}

type caller struct {
	flavor, uid, gid uint32
	groups           []uint32
	id               *identity
}

func (c *connState) find(set *shareSet, sh *share) *admission {
	for i := range c.admissions {
		if a := c.admissions[i].Load(); a != nil && a.set == set && a.share == sh {
			return a
		}
	}
	return nil
}

// admit says who the caller is in the export, or why he is not let in. Linux
// answers the same statuses (fs/nfsd/nfsfh.c, export.c): a client that the
// export is not for sees NFS3ERR_STALE, a flavour it does not allow
// NFS3ERR_ACCES, a port it does not trust NFS3ERR_PERM.
func (w *worker) admit(c *rpc.Call, set *shareSet, sh *share) (*identity, nfsstat3) {
	conn := c.Conn.(*connState)
	a := conn.find(set, sh)
	if a == nil {
		e, st := w.match(c, set, sh)
		if st != nfs3OK {
			return nil, st
		}
		a = newAdmission(set, sh, e)
		conn.admissions[conn.next.Add(1)%uint32(len(conn.admissions))].Store(a)
	}
	o := a.sys
	if c.Cred.Flavor == rpc.AuthNone {
		o = a.none
	}
	if o == nil {
		return nil, nfs3ErrAcces
	}
	if o.Secure && c.Peer.Port() >= ipPortReserved {
		return nil, nfs3ErrPerm
	}
	return w.identify(a, o, &c.Cred), nfs3OK
}

// ipPortReserved is IPPORT_RESERVED of netinet/in.h: ports below it only root
// can use.
const ipPortReserved = 1024

// match asks the exports table; names may have to be resolved first.
func (w *worker) match(c *rpc.Call, set *shareSet, sh *share) (*export.Entry, nfsstat3) {
	e, known := set.matcher.Match(sh.x, c.Peer.Addr())
	if !known {
		if !c.MayBlock {
			return nil, wait
		}
		ctx, cancel := context.WithTimeout(context.Background(), resolveTimeout)
		defer cancel()
		e = set.matcher.MatchWait(ctx, sh.x, c.Peer.Addr())
		if e == nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, nfs3ErrJukebox
		}
	}
	if e == nil {
		return nil, nfs3ErrStale
	}
	return e, nfs3OK
}

// resolveTimeout is how long a call waits for the name service before the client
// is told to try again.
const resolveTimeout = 10 * time.Second

func newAdmission(set *shareSet, sh *share, e *export.Entry) *admission {
	a := &admission{set: set, share: sh}
	if o, ok := e.Flavor(rpc.AuthSys); ok {
		a.sys = &o
	}
	if o, ok := e.Flavor(rpc.AuthNone); ok {
		a.none = &o
	}
	return a
}

// identify squashes the caller. The same caller as last time costs nothing.
func (w *worker) identify(a *admission, o *export.FlavorOptions, cred *rpc.Cred) *identity {
	if l := a.last.Load(); l != nil && l.flavor == cred.Flavor && l.uid == cred.UID && l.gid == cred.GID &&
		slices.Equal(l.groups, cred.Groups()) {
		return l.id
	}
	uid, gid, groups := o.Squash(cred.UID, cred.GID, cred.Groups(), w.groups[:0])
	id := w.srv.identities.get(uid, gid, groups)
	a.last.Store(&caller{cred.Flavor, cred.UID, cred.GID, slices.Clone(cred.Groups()), id})
	return id
}
