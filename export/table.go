package export

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// Table is a loaded exports file. It does not change.
type Table struct {
	exports []*Export
	byPath  map[string]*Export
	// unresolved counts hosts whose names did not resolve: their entries are
	// missing.
	unresolved int
}

// Export is a path with its entries.
type Export struct {
	// Path is canonical if it existed, else as written. It is a byte string.
	Path string
	// Entries are in file order, one for each client.
	Entries []*Entry

	index index
}

// Entry is what one client specification of an export gets.
type Entry struct {
	Export  *Export
	Client  Client
	Options Options
	Pos     Pos

	at span
}

func newTable() *Table { return &Table{byPath: map[string]*Export{}} }

// seal sorts and indexes a table once it is complete.
func (t *Table) seal() *Table {
	maps.DeleteFunc(t.byPath, func(_ string, x *Export) bool { return len(x.Entries) == 0 })
	t.exports = slices.SortedFunc(maps.Values(t.byPath), func(a, b *Export) int { return strings.Compare(a.Path, b.Path) })
	for _, x := range t.exports {
		x.index = newIndex(x.Entries)
		for _, e := range x.Entries {
			e.at = span{} // lets the source go
		}
	}
	return t
}

// same reports whether two tables grant the same for the same lines.
func (t *Table) same(u *Table) bool {
	return t.unresolved == u.unresolved && slices.EqualFunc(t.exports, u.exports, func(x, y *Export) bool {
		return x.Path == y.Path && slices.EqualFunc(x.Entries, y.Entries, func(a, b *Entry) bool {
			return a.Pos == b.Pos && a.EtabLine() == b.EtabLine() && slices.Equal(a.Client.Addrs, b.Client.Addrs)
		})
	})
}

// Exports returns the exports by path. The slice is the caller's.
func (t *Table) Exports() []*Export { return slices.Clone(t.exports) }

// Export returns the export of exactly this path, or nil.
func (t *Table) Export(path string) *Export { return t.byPath[path] }

// Len returns the number of exports.
func (t *Table) Len() int { return len(t.exports) }

// Flavor returns the options that hold for an RPC authentication flavour.
// ok is false where sec= does not allow it.
func (e *Entry) Flavor(flavor uint32) (o FlavorOptions, ok bool) {
	for i := range e.Options.Sec {
		if e.Options.Sec[i].Flavor == flavor {
			return e.Options.Sec[i], true
		}
	}
	return FlavorOptions{}, false
}

// Flavors appends the flavours of the entry that are served here, the preferred
// one first. There may be none: then the entry refuses its clients.
func (e *Entry) Flavors(dst []uint32) []uint32 {
	for i := range e.Options.Sec {
		if f := e.Options.Sec[i].Flavor; served(f) {
			dst = append(dst, f)
		}
	}
	return dst
}

// served reports whether the server has an RPC authentication flavour.
func served(flavor uint32) bool { return flavor == AUTH_SYS || flavor == AUTH_NONE }

// index finds the first entry for an address among hosts and networks, and
// holds the entries that take more than an address to decide.
type index struct {
	hosts    map[netip.Addr]*Entry
	networks [2][]networkGroup // IPv6, IPv4
	byName   []*Entry          // wildcards, then netgroups
	everyone *Entry
}

// networkGroup is the networks with one mask.
type networkGroup struct {
	mask   key
	byBase map[key]int // index into Export.Entries of the first one
}

func newIndex(entries []*Entry) (x index) {
	for i, e := range entries {
		switch e.Client.Kind {
		case Host:
			for _, a := range e.Client.Addrs {
				if x.hosts == nil {
					x.hosts = make(map[netip.Addr]*Entry)
				}
				if x.hosts[a] == nil {
					x.hosts[a] = e
				}
			}
		case Network:
			x.addNetwork(e.Client.network, i)
		case Wildcard, Netgroup:
			x.byName = append(x.byName, e)
		case Anonymous:
			if x.everyone == nil {
				x.everyone = e
			}
		}
	}
	slices.SortStableFunc(x.byName, func(a, b *Entry) int { return int(a.Client.Kind) - int(b.Client.Kind) })
	return x
}

func (x *index) addNetwork(n network, at int) {
	family := &x.networks[b2i(n.is4)]
	i := slices.IndexFunc(*family, func(g networkGroup) bool { return g.mask == n.mask })
	if i < 0 {
		i = len(*family)
		*family = append(*family, networkGroup{n.mask, map[key]int{}})
	}
	byBase := (*family)[i].byBase
	if _, ok := byBase[n.base]; !ok {
		byBase[n.base] = at
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// network returns the index of the first entry with a network that has the
// address, or -1: file order decides, not the longest prefix.
func (x *index) network(k key, is4 bool) int {
	first := -1
	for _, g := range x.networks[b2i(is4)] {
		if i, ok := g.byBase[k.and(g.mask)]; ok && (first < 0 || i < first) {
			first = i
		}
	}
	return first
}
