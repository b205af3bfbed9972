package nfsd

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// Where the kernel has no handles, or this process may not open them
// (CAP_DAC_READ_SEARCH), a handle says how to find the object again: its inode
// number, a generation, and a hint of the way: one byte for each directory
// between the export's root and the object, hashed from the directory's inode
// number. Names are not in it, so it survives renames of any of them within
// their directories. unfs3 describes its handles alike.
//
// The search tries the hinted way first; an object that has been moved to
// another directory is then looked for in the whole tree, up to searchBudget
// entries. Not found is NFS3ERR_STALE.

const (
	hintFixed    = 8 + 4 + 1 // inode, generation, depth
	maxHint      = maxBody - hintFixed
	searchBudget = 50_000
)

// pathHint is the body of such a handle.
type pathHint struct {
	ino   uint64
	gen   uint32
	depth uint8 // directories between root and object; 0 for the root and what is in it
	way   [maxHint]byte
}

func (h *pathHint) encode(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, h.ino)
	b = binary.BigEndian.AppendUint32(b, h.gen)
	b = append(b, h.depth)
	return append(b, h.way[:min(int(h.depth), maxHint)]...)
}

func parseHint(b []byte) (h pathHint, ok bool) {
	if len(b) < hintFixed {
		return h, false
	}
	h.ino, h.gen, h.depth = binary.BigEndian.Uint64(b), binary.BigEndian.Uint32(b[8:]), b[12]
	return h, copy(h.way[:], b[hintFixed:]) == min(int(h.depth), maxHint)
}

// hashIno makes the byte that stands for a directory.
func hashIno(ino uint64) byte {
	return byte(ino) ^ byte(ino>>8) ^ byte(ino>>16) ^ byte(ino>>24) ^ byte(ino>>32)
}

// childHint makes the hint of an open object in the directory whose handle body
// is parent; nil for the export's root itself.
func childHint(fd int, st *unix.Stat_t, parent []byte, v *volume) (h pathHint, err error) {
	h.ino = st.Ino
	if h.gen, err = generation(fd); err != nil || parent == nil {
		return h, err
	}
	p, ok := parseHint(parent)
	if !ok {
		return h, unix.EINVAL
	}
	if p.ino == v.ino { // in the root
		return h, nil
	}
	h.depth, h.way = p.depth, p.way
	if int(h.depth) < maxHint {
		h.way[h.depth] = hashIno(p.ino)
	}
	if h.depth < 255 {
		h.depth++
	}
	return h, nil
}

// parentHint makes the hint of the directory above the one whose body is given.
func (h pathHint) parentHint(fd int, st *unix.Stat_t) (pathHint, error) {
	gen, err := generation(fd)
	h.ino, h.gen = st.Ino, gen
	if h.depth > 0 {
		h.depth--
	}
	return h, err
}

// generation tells two users of one inode number apart: by when the inode was
// made, where the file system says it; 0 elsewhere.
func generation(fd int) (uint32, error) {
	var sx unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BTIME, &sx); err != nil {
		return 0, err
	}
	if sx.Mask&unix.STATX_BTIME == 0 {
		return 0, nil
	}
	return uint32(sx.Btime.Sec)*1_000_003 ^ sx.Btime.Nsec, nil
}

// openByPath searches for the object.
func (w *worker) openByPath(v *volume, body []byte) (int, nfsstat3) {
	hint, ok := parseHint(body)
	if !ok {
		return -1, nfs3ErrBadhandle
	}
	dir, err := w.srv.dirs.acquire(v)
	if err != nil {
		return -1, staleUnless(err)
	}
	defer w.srv.dirs.release(v)
	if hint.ino == v.ino {
		fd, err := unix.Openat(dir, ".", unix.O_PATH|unix.O_CLOEXEC, 0)
		return fd, statusOf(err)
	}
	s := search{hint: hint, dev: v.dev, budget: searchBudget}
	fd := s.in(dir, 0, true)
	if fd < 0 {
		s.budget = searchBudget
		fd = s.in(dir, 0, false)
	}
	if fd < 0 {
		return -1, nfs3ErrStale
	}
	return fd, nfs3OK
}

// search is a depth-first walk for one object.
type search struct {
	hint   pathHint
	dev    uint64
	budget int
}

// maxSearchDepth bounds the recursion, and so the descriptors it holds.
const maxSearchDepth = 64

// in looks for the object in an open directory at the given depth, following
// the hint or everywhere. It returns an O_PATH descriptor or -1.
func (s *search) in(dir, depth int, hinted bool) int {
	entries := s.list(dir)
	if !hinted || depth == int(s.hint.depth) {
		for _, e := range entries {
			if e.ino == s.hint.ino {
				if fd := s.match(dir, e.name); fd >= 0 {
					return fd
				}
			}
		}
	}
	if depth >= maxSearchDepth || hinted && depth >= int(s.hint.depth) {
		return -1
	}
	for _, e := range entries {
		if s.budget <= 0 {
			return -1
		}
		if e.typ != unix.DT_DIR && e.typ != unix.DT_UNKNOWN {
			continue
		}
		if hinted && depth < maxHint && hashIno(e.ino) != s.hint.way[depth] {
			continue
		}
		if fd := s.below(dir, e.name, depth+1, hinted); fd >= 0 {
			return fd
		}
	}
	return -1
}

func (s *search) below(dir int, name string, depth int, hinted bool) int {
	how := unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NONBLOCK,
		Resolve: unix.RESOLVE_NO_XDEV}
	sub, err := unix.Openat2(dir, name, &how)
	if err != nil {
		return -1
	}
	defer unix.Close(sub)
	return s.in(sub, depth, hinted)
}

// match opens the entry if it is the object.
func (s *search) match(dir int, name string) int {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_XDEV}
	fd, err := unix.Openat2(dir, name, &how)
	if err != nil {
		return -1
	}
	var st unix.Stat_t
	gen, err := generation(fd)
	if err != nil || unix.Fstat(fd, &st) != nil || st.Ino != s.hint.ino || st.Dev != s.dev || gen != s.hint.gen {
		unix.Close(fd)
		return -1
	}
	return fd
}

type searchEntry struct {
	ino  uint64
	typ  uint8
	name string
}

// list reads a directory as far as the budget goes.
func (s *search) list(dir int) []searchEntry {
	fd, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	var out []searchEntry
	buf := make([]byte, 16<<10)
	for s.budget > 0 {
		n, err := getdents(fd, buf)
		if err != nil || n == 0 {
			break
		}
		for b := buf[:n]; len(b) > 0; {
			var d dirent
			d, b = nextDirent(b)
			if string(d.name) == "." || string(d.name) == ".." {
				continue
			}
			out = append(out, searchEntry{d.ino, d.typ, string(d.name)})
			s.budget--
		}
	}
	return out
}
