package peers

import (
	"fmt"
	"slices"
	"strings"
)

// listing is what READDIR or READDIRPLUS said, over any number of calls.
type listing struct {
	names  []string
	attrs  int      // entries with attributes
	fhs    int      // entries with a handle
	wrong  []string // entries that are not what they should be
	cookie uint64   // of the last entry
	verf   uint64
	eof    bool
}

// page decodes one reply's results after the status.
func (l *listing) page(r *renderer, plus bool, dir string) {
	l.verf = r.u64()
	for r.bool() {
		fileid, name := r.u64(), string(r.opaque())
		l.cookie = r.u64()
		if r.err != nil {
			return
		}
		l.names = append(l.names, name)
		if plus {
			l.extras(r, name)
		}
		if want := entryPath(dir, name); r.s.pathOf(fileid) != r.s.canonical(want) {
			l.wrong = append(l.wrong, fmt.Sprintf("%q has the fileid of %s", name, r.s.pathOf(fileid)))
		}
	}
	l.eof = r.bool()
}

// extras decodes what READDIRPLUS has more of.
func (l *listing) extras(r *renderer, name string) {
	before := len(r.parts)
	r.postOp(name)
	if text := r.parts[len(r.parts)-1]; strings.Contains(text, "!") {
		l.wrong = append(l.wrong, text)
	} else if !strings.HasSuffix(text, "=none") {
		l.attrs++
	}
	r.parts = r.parts[:before]
	if r.bool() {
		r.opaque()
		l.fhs++
	}
}

// entryPath is the path of a directory's entry, "" being the root of the
// export, which is its own parent.
func entryPath(dir, name string) string {
	switch {
	case name == ".":
		return dir
	case name == ".." && !strings.Contains(dir, "/"):
		return ""
	case name == "..":
		return dir[:strings.LastIndex(dir, "/")]
	case dir == "":
		return name
	}
	return dir + "/" + name
}

// canonical returns the name by which pathOf knows the file at path.
func (s *side) canonical(path string) string {
	st := lstat(s.t, s.abs(path))
	return s.pathOf(st.Ino)
}

func (l *listing) String() string {
	slices.Sort(l.names)
	names := fmt.Sprintf("%.40q", l.names)
	if len(l.names) > 10 {
		names = fmt.Sprintf("%d names", len(l.names))
	}
	if n := len(slices.Compact(slices.Clone(l.names))); n != len(l.names) {
		l.wrong = append(l.wrong, fmt.Sprintf("only %d of them different", n))
	}
	text := names
	if l.attrs+l.fhs > 0 {
		text += fmt.Sprintf(" attrs=%d handles=%d", l.attrs, l.fhs)
	}
	if len(l.wrong) > 0 {
		text += fmt.Sprintf(" WRONG: %q", l.wrong)
	}
	return text + fmt.Sprintf(" eof=%v", l.eof)
}

// okReaddir renders a single reply. How much a server puts into one is its
// own affair, so only whether there was anything is told.
func okReaddir(plus bool) func(*renderer) {
	return func(r *renderer) {
		r.postOp("dir")
		l := new(listing)
		l.page(r, plus, "")
		r.add("some=%v eof=%v", len(l.names) > 0, l.eof)
	}
}

// list reads a directory to its end with results of at most size bytes.
func (s *side) list(plus bool, c cred, dir string, size uint32) string {
	l := new(listing)
	for range 500 {
		text, done := s.listPage(l, plus, c, dir, size)
		if done {
			return text
		}
	}
	return "no end after 500 calls"
}

func (s *side) listPage(l *listing, plus bool, c cred, dir string, size uint32) (text string, done bool) {
	args := new(enc).opaque(s.fh(dir)).u64(l.cookie, l.verf).u32(size)
	proc := uint32(16)
	if plus {
		proc = 17
		args.u32(size)
	}
	before := len(l.names)
	text = s.render(s.nfs, progNFS, 3, proc, c, args.b, func(r *renderer) {
		if len(r.b)+4 > int(size) {
			l.wrong = append(l.wrong, fmt.Sprintf("%d bytes where %d were allowed", len(r.b)+4, size))
		}
		r.postOp("dir")
		l.page(r, plus, dir)
	}, procedures[proc].fail)
	if strings.HasPrefix(text, "OK") && !strings.Contains(text, "MALFORMED") && !l.eof && len(l.names) > before {
		return "", false
	}
	return text + " " + l.String(), true
}
