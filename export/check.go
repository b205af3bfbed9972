package export

import (
	"maps"
	"slices"
	"strings"
)

// checkSec warns where none of an entry's flavours is served here: the entry
// then refuses its clients, and does not fall back to a weaker flavour.
func (b *builder) checkSec(e *Entry) {
	var unserved []string
	for _, f := range e.Options.Sec {
		if !served(f.Flavor) {
			unserved = append(unserved, f.Name)
		}
	}
	switch list := strings.Join(unserved, ":"); {
	case len(unserved) == 0:
	case len(unserved) == len(e.Options.Sec):
		b.rep.at(e.at, Warning, "only sys and none are served here; add sys if AUTH_SYS will do",
			"sec=%s is not served here, so that %s gets no access to %s", list, e.Client, e.Export.Path)
	default:
		b.rep.at(e.at, Note, "", "sec=%s is not served here; the other flavours of this entry are", list)
	}
}

// checkTable adds what can be said of a table as a whole.
func checkTable(t *Table, entries []*Entry, rep *reporter) {
	var rw *Entry
	nrw := 0
	for _, e := range entries {
		if writable(e) {
			if rw == nil {
				rw = e
			}
			nrw++
		}
		if e.Client.Kind == Anonymous {
			checkWorld(e, rep)
		}
	}
	if rw != nil {
		rep.at(rw.at, Warning, "write ro, so that a server that can write does not surprise", "rw is served read-only here (%s)", count(nrw, "entry", "entries"))
	}
	checkNested(t, rep)
	checkFSID(entries, rep)
}

// checkFSID reports two exports with one fsid=: a file handle would be good for
// both. And an export has one fsid= for all its clients, that of its first entry.
func checkFSID(entries []*Entry, rep *reporter) {
	owner := map[string]*Export{}
	first := map[*Export]*Entry{}
	for _, e := range entries {
		if first[e.Export] == nil {
			first[e.Export] = e
		} else if f := first[e.Export]; e.Options.FSID.Key() != f.Options.FSID.Key() {
			rep.at(e.at, Warning, "give every entry of a path the same fsid", "the fsid of %s is that of its first entry, line %d of %s",
				e.Export.Path, f.Pos.Line, f.Pos.File)
		}
	}
	exports := slices.SortedFunc(maps.Keys(first), func(a, b *Export) int { return strings.Compare(a.Path, b.Path) })
	for _, x := range exports {
		e := first[x]
		key := e.Options.FSID.Key()
		if key == "" {
			continue
		}
		other := owner[key]
		if other == nil {
			owner[key] = x
			continue
		}
		rep.fails(e.at, "give each export a number of its own", "%s is left out: it has fsid=%s, and so has %s, %s", x.Path, key, other.Path, first[other].Pos)
	}
}

func writable(e *Entry) bool {
	for _, f := range e.Options.Sec {
		if !f.ReadOnly {
			return true
		}
	}
	return false
}

// checkWorld warns of everyone's root being root.
func checkWorld(e *Entry, rep *reporter) {
	for _, f := range e.Options.Sec {
		if f.RootSquash || f.AllSquash || f.Flavor != AUTH_SYS {
			continue
		}
		can := "read everything in"
		if !f.ReadOnly {
			can = "do anything in"
		}
		rep.at(e.at, Warning, "drop no_root_squash, or name the clients", "no_root_squash for everyone: whoever is root on any machine may %s %s", can, e.Export.Path)
		return
	}
}

// checkNested notes exports below others, one message for each outer one:
// clients of the outer export reach the files of the inner ones with the
// options of the outer.
func checkNested(t *Table, rep *reporter) {
	inner := map[*Export][]*Export{}
	for _, x := range t.byPath {
		if len(x.Entries) == 0 {
			continue
		}
		if outer := t.above(x.Path); outer != nil {
			inner[outer] = append(inner[outer], x)
		}
	}
	for outer, list := range inner {
		first := list[0]
		for _, x := range list[1:] {
			if x.Path < first.Path {
				first = x
			}
		}
		more := ""
		if len(list) > 1 {
			more = " (and " + count(len(list)-1, "more", "more") + ")"
		}
		rep.at(outer.Entries[0].at, Note, "who mounts the outer one reaches it with the options of the outer one, if it is of the same file system",
			"%s%s lies below this export", first.Path, more)
	}
}

// above returns the nearest export that p lies below, or nil.
func (t *Table) above(p string) *Export {
	for strings.HasPrefix(p, "/") && p != "/" {
		p = p[:strings.LastIndexByte(p, '/')]
		if p == "" {
			p = "/"
		}
		if x := t.byPath[p]; x != nil && len(x.Entries) > 0 {
			return x
		}
	}
	return nil
}
