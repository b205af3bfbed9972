package nfsd

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"sluice/export"
	"sluice/rpc"
)

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
	entry *export.Entry
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
func (w *worker) admit(c *rpc.Call, set *shareSet, sh *share) (*admission, *identity, nfsstat3) {
	conn := c.Conn.(*connState)
	a := conn.find(set, sh)
	if a == nil {
		e, st := w.match(c, set, sh)
		if st != nfs3OK {
			return nil, nil, st
		}
		a = newAdmission(set, sh, e)
		conn.admissions[conn.next.Add(1)%uint32(len(conn.admissions))].Store(a)
	}
	o := a.sys
	if c.Cred.Flavor == rpc.AuthNone {
		o = a.none
	}
	if o == nil {
		return nil, nil, nfs3ErrAcces
	}
	if o.Secure && c.Peer.Port() >= ipPortReserved {
		return nil, nil, nfs3ErrPerm
	}
	return a, w.identify(a, o, &c.Cred), nfs3OK
}

// ipPortReserved is IPPORT_RESERVED of netinet/in.h: ports below it only root
// can use.
const ipPortReserved = 1024

// match asks the exports that the share belongs to, the nearest first; names may
// have to be resolved before.
func (w *worker) match(c *rpc.Call, set *shareSet, sh *share) (*export.Entry, nfsstat3) {
	for _, g := range sh.grants {
		e, st := w.matchOne(c, set, g.x)
		if st != nfs3OK {
			return nil, st
		}
		switch {
		case e == nil || g.below && !e.Options.CrossMount:
			continue
		case set.absent[e]:
			return nil, nfs3ErrStale
		}
		return e, nfs3OK
	}
	return nil, nfs3ErrStale
}

// matchOne returns the entry of an export that holds for the client, or nil.
func (w *worker) matchOne(c *rpc.Call, set *shareSet, x *export.Export) (*export.Entry, nfsstat3) {
	e, known := set.matcher.Match(x, c.Peer.Addr())
	if known {
		return e, nfs3OK
	}
	if !c.MayBlock {
		return nil, wait
	}
	ctx, cancel := context.WithTimeout(context.Background(), resolveTimeout)
	defer cancel()
	e = set.matcher.MatchWait(ctx, x, c.Peer.Addr())
	if e == nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil, nfs3ErrJukebox
	}
	return e, nfs3OK
}

// classNames is the rpc.Call.WaitClass of calls that wait for the name service, so
// that they keep waiting threads from none but each other. It is no device number.
const classNames = ^uint64(0)

// resolveTimeout is how long a call waits for the name service before the client
// is told to try again.
const resolveTimeout = 10 * time.Second

func newAdmission(set *shareSet, sh *share, e *export.Entry) *admission {
	a := &admission{set: set, share: sh, entry: e}
	if o, ok := e.Flavor(rpc.AuthSys); ok {
		a.sys = &o
	}
	if o, ok := e.Flavor(rpc.AuthNone); ok {
		a.none = &o
	}
	return a
}

// nobody is the kernel's INVALID_UID and INVALID_GID.
const nobody = ^uint32(0)

// identify squashes the caller. The same caller as last time costs nothing.
func (w *worker) identify(a *admission, o *export.FlavorOptions, cred *rpc.Cred) *identity {
	if l := a.last.Load(); l != nil && l.flavor == cred.Flavor && l.uid == cred.UID && l.gid == cred.GID &&
		slices.Equal(l.groups, cred.Groups()) {
		return l.id
	}
	uid, gid := cred.UID, cred.GID
	if cred.Flavor == rpc.AuthNone { // he has no ids: the anonymous ones hold, squashing or not
		uid, gid = nobody, nobody
	}
	uid, gid, groups := o.Squash(uid, gid, cred.Groups(), w.groups[:0])
	id := w.srv.identities.get(uid, gid, groups)
	a.last.Store(&caller{cred.Flavor, cred.UID, cred.GID, slices.Clone(cred.Groups()), id})
	return id
}
