package export

import (
	"context"
	"net/netip"
	"path"
	"strings"
)

// Matcher says which entry of a table holds for a client.
//
// Kinds go before each other in the order of Kind, whatever their order in
// the file; within a kind the first entry that matches holds, for networks
// too: the longest prefix has no advantage (exports(5); nfs-utils,
// export_find).
type Matcher struct {
	t *Table
	c *Cache
}

// NewMatcher returns a matcher. r may be a resolver, which gets a cache of its
// own, or nil for the system's; use NewCachedMatcher to share a cache.
func NewMatcher(t *Table, r Resolver) *Matcher {
	return NewCachedMatcher(t, NewCache(r, CacheOptions{}))
}

// NewCachedMatcher returns a matcher that asks c.
func NewCachedMatcher(t *Table, c *Cache) *Matcher { return &Matcher{t, c} }

// Table returns the table matched against.
func (m *Matcher) Table() *Table { return m.t }

// Match returns the entry of x that holds for addr, or nil. It never waits:
// known is false where a name or a netgroup has to be resolved first, and then
// MatchWait has the answer. It allocates nothing unless names matter.
func (m *Matcher) Match(x *Export, addr netip.Addr) (e *Entry, known bool) {
	return x.match(addr, peeker{m.c})
}

// MatchWait is Match that waits for the name service. A service that fails to
// answer in time (CacheOptions.Timeout) counts as one that knows no name, as
// for nfs-utils: then entries for everyone hold. If ctx is done before that,
// the result is nil: nothing is decided.
func (m *Matcher) MatchWait(ctx context.Context, x *Export, addr netip.Addr) *Entry {
	if e, known := x.match(addr, peeker{m.c}); known {
		return e
	}
	e, known := x.match(addr, waiter{m.c, ctx})
	if !known {
		return nil
	}
	return e
}

// Find is the rule of MOUNT: the longest exported path at or above p that has
// an entry for addr. p has to be canonical.
func (m *Matcher) Find(ctx context.Context, p string, addr netip.Addr) (*Export, *Entry) {
	if !strings.HasPrefix(p, "/") {
		return nil, nil
	}
	for {
		if x := m.t.byPath[p]; x != nil {
			if e := m.MatchWait(ctx, x, addr); e != nil {
				return x, e
			}
		}
		if p == "/" {
			return nil, nil
		}
		p = path.Dir(p)
	}
}

// names answers questions to the name service, known or not.
type names interface {
	names(netip.Addr) (names []string, known bool)
	group(name string) (g *netgroup, known bool)
}

type peeker struct{ c *Cache }

func (p peeker) names(a netip.Addr) ([]string, bool) { return p.c.names.peek(a) }
func (p peeker) group(g string) (*netgroup, bool)    { return p.c.groups.peek(g) }

type waiter struct {
	c   *Cache
	ctx context.Context
}

func (w waiter) names(a netip.Addr) ([]string, bool) { return w.c.names.get(w.ctx, a) }
func (w waiter) group(g string) (*netgroup, bool)    { return w.c.groups.get(w.ctx, g) }

// match finds the entry for an address: by address, then by name, then
// everyone's.
func (x *Export) match(addr netip.Addr, ns names) (e *Entry, known bool) {
	if !addr.IsValid() {
		return nil, true
	}
	addr = addr.Unmap()
	if e := x.index.hosts[addr]; e != nil {
		return e, true
	}
	if i := x.index.network(keyOf(addr)); i >= 0 {
		return x.Entries[i], true
	}
	if len(x.index.byName) > 0 {
		e, known := x.matchNames(addr, ns)
		if e != nil || !known {
			return e, known
		}
	}
	return x.index.everyone, true
}

// matchNames tries wildcards, then netgroups.
func (x *Export) matchNames(addr netip.Addr, ns names) (*Entry, bool) {
	names, known := ns.names(addr)
	if !known {
		return nil, false
	}
	for _, e := range x.index.byName {
		if e.Client.Kind == Netgroup {
			g, known := ns.group(e.Client.Name[1:])
			if !known {
				return nil, false
			}
			if g.has(names, addr) {
				return e, true
			}
			continue
		}
		for _, n := range names {
			if wildmat(n, e.Client.Name) {
				return e, true
			}
		}
	}
	return nil, true
}
