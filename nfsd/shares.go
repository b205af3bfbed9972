package nfsd

import (
	"context"
	"log/slog"
	"strings"

	"golang.org/x/sys/unix"

	"sluice/export"
	"sluice/ioctx"
)

// share is a directory that clients may get at: one that is exported, or the
// root of a file system mounted below one whose export has crossmnt.
type share struct {
	path string
	vol  *volume
	// grants are the exports that may let a client in, the nearest first.
	grants []grant
	// above are the shares in which this one is mounted, the nearest first.
	above []*share
	// crosses says that a mount in this share may be crossed.
	crosses bool
	// subtree says that an entry has subtree_check.
	subtree bool
}

// grant is an export that a share belongs to: by its own path, or because it is
// mounted below that, which counts for entries with crossmnt.
type grant struct {
	x     *export.Export
	below bool
}

// shareSet is the table of exports in force, with what is mounted below them. It
// never changes; a reload or a mount makes another.
type shareSet struct {
	matcher *export.Matcher
	byID    map[uint64]*share
	byPath  map[string]*share
	// covered are the shares on directories that a mount hides.
	covered map[coverKey]*share
	// absent are the entries whose mountpoint= has nothing mounted on it.
	absent map[*export.Entry]bool
	// leftOut are the exports that are not served, and why.
	leftOut map[string]string
	// conditional says that there are entries with mountpoint=.
	conditional bool
}

// coverKey is a directory of a volume.
type coverKey struct {
	vol *volume
	ino uint64
}

// SetExports puts a table of exports in force, in one step: calls under way end
// as they began. Exports whose directory cannot be opened are left out with a
// warning, and tried again when a client mounts them.
func (s *Server) SetExports(m *export.Matcher) {
	s.sharesMu.Lock()
	defer s.sharesMu.Unlock()
	s.setLocked(m, "")
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
// names the same thing, except at the path renew.
func (s *Server) setLocked(m *export.Matcher, renew string) {
	seen := s.mountWatch.seen.Load() // before reading: what changes later counts
	mounts := readMounts()
	old := s.shares.Load()
	b := newSetBuilder(s, m, mounts, renew)
	for _, x := range m.Table().Exports() {
		b.addExport(x)
	}
	b.addSubmounts()
	b.link()
	s.mounts.Store(mounts)
	s.shares.Store(b.set)
	s.mountWatch.known.Store(seen)
	s.retire(old, b.set)
}

// refreshMounts takes note of what has been mounted and unmounted.
func (s *Server) refreshMounts() {
	s.sharesMu.Lock()
	defer s.sharesMu.Unlock()
	seen := s.mountWatch.seen.Load()
	if seen == s.mountWatch.known.Load() {
		return
	}
	set, mounts := s.shares.Load(), readMounts()
	if set.concerns(mounts.changedSince(s.mounts.Load())) {
		s.setLocked(set.matcher, "")
		return
	}
	s.mounts.Store(mounts)
	s.mountWatch.known.Store(seen)
}

// concerns says whether a change of mounts makes a difference to the set: on
// hosts with containers most do not.
func (set *shareSet) concerns(changed map[string]bool) bool {
	if len(changed) == 0 || set.conditional {
		return len(changed) > 0
	}
	table := set.matcher.Table()
	for p := range changed {
		for q := range upwards(p) {
			if x := table.Export(q); x != nil && hasCrossmnt(x) {
				return true
			}
		}
	}
	for _, x := range table.Exports() {
		if affects(changed, x.Path) {
			return true
		}
	}
	return false
}

// setBuilder builds a shareSet.
type setBuilder struct {
	s    *Server
	set  *shareSet
	old  *shareSet
	with describer
	// renew is a path to look at anew; changed are paths where mounts came or went.
	renew   string
	changed map[string]bool
	numbers map[string]*export.Export // by fsid=
	mountAt map[string]uint64         // the mount that a path leads to
}

func newSetBuilder(s *Server, m *export.Matcher, mounts *mountTable, renew string) *setBuilder {
	b := &setBuilder{s: s, old: s.shares.Load(), renew: renew, numbers: make(map[string]*export.Export), mountAt: make(map[string]uint64)}
	b.set = &shareSet{matcher: m, byID: make(map[uint64]*share), byPath: make(map[string]*share),
		covered: make(map[coverKey]*share), absent: make(map[*export.Entry]bool), leftOut: make(map[string]string)}
	b.with = describer{s: s, mounts: mounts, known: make(map[uint64]fileSystem)}
	if b.old != nil {
		b.changed = mounts.changedSince(s.mounts.Load())
	}
	return b
}

// addExport adds the share of an export.
func (b *setBuilder) addExport(x *export.Export) {
	if !strings.HasPrefix(x.Path, "/") {
		return // the loader has warned of it
	}
	b.checkMountpoints(x)
	fsid := x.Entries[0].Options.FSID
	if key := fsid.Key(); key != "" {
		if other := b.numbers[key]; other != nil {
			b.leaveOut(slog.LevelError, x.Path, "another one has the same fsid", "fsid", key,
				"at", x.Entries[0].Pos.String(), "other", other.Path, "other-at", other.Entries[0].Pos.String())
			return
		}
		b.numbers[key] = x
	}
	vol, err := b.volume(x.Path, fsid)
	if err != nil {
		b.leaveOut(slog.LevelWarn, x.Path, "its directory cannot be opened now", "error", err)
		return
	}
	b.add(&share{path: x.Path, vol: vol, grants: []grant{{x: x}}})
}

// leaveOut does without an export. The operator hears of it once.
func (b *setBuilder) leaveOut(level slog.Level, path, why string, attrs ...any) {
	b.set.leftOut[path] = why
	if b.old != nil && b.old.leftOut[path] == why {
		level = slog.LevelDebug
	}
	b.s.log.Log(context.Background(), level, "export left out: "+why, append([]any{"path", path}, attrs...)...)
}

// volume returns the volume of a path, that of the old set if it still holds.
func (b *setBuilder) volume(path string, fsid export.FSID) (*volume, error) {
	if vol := b.reusable(path, fsid); vol != nil {
		return vol, nil
	}
	return b.with.describe(path, fsid)
}

// reusable returns the volume that the old set has at a path, where that names
// the same directory in the same way.
func (b *setBuilder) reusable(path string, fsid export.FSID) *volume {
	if b.old == nil || path == b.renew || affects(b.changed, path) {
		return nil
	}
	sh := b.old.byPath[path]
	if sh == nil || sh.path != path || sh.fsid() != fsid {
		return nil
	}
	return sh.vol
}

// fsid is the fsid= option of a share.
func (sh *share) fsid() export.FSID {
	if g := sh.grants[0]; !g.below {
		return g.x.Entries[0].Options.FSID
	}
	return export.FSID{}
}

// add puts a share into the set. Two paths that lead to one directory, as bind
// mounts do, make one share, since a handle cannot tell them apart; the exports
// of both let clients in. Linux nfsd has it so too: it looks for a path that has
// the file system of the handle and is exported to the client.
func (b *setBuilder) add(sh *share) {
	other := b.set.byID[sh.vol.id]
	b.mountAt[sh.path] = sh.vol.mount
	switch {
	case other == nil:
		b.set.byID[sh.vol.id], b.set.byPath[sh.path] = sh, sh
	case other.vol.same(sh.vol):
		other.grants = append(other.grants, sh.grants...)
		b.set.byPath[sh.path] = other
	default:
		b.leaveOut(slog.LevelError, sh.path, "its file system has the same identity as another, fsid= makes them two", "other", other.path)
	}
}

// checkMountpoints finds the entries whose mountpoint= has nothing mounted.
func (b *setBuilder) checkMountpoints(x *export.Export) {
	for _, e := range x.Entries {
		mp := e.Options.Mountpoint
		if !mp.Set {
			continue
		}
		b.set.conditional = true
		if mp.Path == "" {
			mp.Path = x.Path
		}
		if !isMountPoint(mp.Path) {
			b.set.absent[e] = true
		}
	}
}

// isMountPoint is the test of nfs-utils (is_mountpoint in support/misc): a
// directory on another device than the one above it, or the root. Bind mounts
// within a file system do not count there; statx(2) tells of them too.
func isMountPoint(path string) bool {
	var st, up unix.Stat_t
	if unix.Lstat(path, &st) != nil || unix.Lstat(path+"/..", &up) != nil {
		return false
	}
	if st.Dev != up.Dev || st.Ino == up.Ino {
		return true
	}
	var sx unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, 0, &sx)
	return err == nil && sx.Attributes_mask&sx.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}

// retire closes what the new set does not use.
func (s *Server) retire(old, set *shareSet) {
	if old == nil {
		return
	}
	gone := make(map[*volume]bool)
	for id, sh := range old.byID {
		if now := set.byID[id]; now == nil || now.vol != sh.vol {
			gone[sh.vol] = true
		}
	}
	if len(gone) == 0 {
		return
	}
	s.dirs.retire(gone)
	s.io.Files.DropIf(func(f *ioctx.File) bool { return gone[f.Value.(*object).vol] })
}

// shareAt returns the share of an export, looking at its directory again if it
// was not there before or is another one now. It may wait.
func (s *Server) shareAt(x *export.Export) (*share, error) {
	var st unix.Stat_t
	if err := unix.Stat(x.Path, &st); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil, unix.ENOTDIR
	}
	set := s.shares.Load()
	if sh := set.at(x.Path, &st); sh != nil {
		return sh, nil
	}
	s.sharesMu.Lock()
	defer s.sharesMu.Unlock()
	set = s.shares.Load()
	if sh := set.at(x.Path, &st); sh != nil {
		return sh, nil // another thread was here first
	}
	s.setLocked(set.matcher, x.Path)
	if sh := s.shares.Load().byPath[x.Path]; sh != nil {
		return sh, nil
	}
	return nil, unix.EACCES // it is left out
}

// at returns the share at a path if it is of the directory given.
func (set *shareSet) at(path string, st *unix.Stat_t) *share {
	sh := set.byPath[path]
	if sh == nil || sh.vol.dev != st.Dev || sh.vol.ino != st.Ino {
		return nil
	}
	return sh
}
