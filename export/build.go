package export

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
)

// builder turns what files say into a Table: paths become canonical, host
// names resolve, duplicates go.
type builder struct {
	o   LoadOptions
	rep *reporter
	ctx context.Context

	table *Table
	paths map[string]*Export // by the path as written
	known map[string]string  // for resolvePath
	names map[string]hostAnswer
	// clients by etab name (in lower case, with the kind) and hosts by address:
	// exportfs takes two hosts with an address in common for one.
	clients map[string]*Client
	byAddr  map[netip.Addr]*hostRecord
	nhosts  int
	seen    map[pair]*Entry
}

// pair is what may occur once.
type pair struct {
	client *Client
	export *Export
}

type hostRecord struct {
	client *Client
	order  int
}

type hostAnswer struct {
	canonical string
	addrs     []netip.Addr
	err       error
}

func newBuilder(ctx context.Context, o LoadOptions, rep *reporter) *builder {
	if o.Resolver == nil {
		o.Resolver = SystemResolver()
	}
	return &builder{
		o: o, rep: rep, ctx: ctx,
		table:   newTable(),
		paths:   map[string]*Export{},
		known:   map[string]string{},
		names:   map[string]hostAnswer{},
		clients: map[string]*Client{},
		byAddr:  map[netip.Addr]*hostRecord{},
		seen:    map[pair]*Entry{},
	}
}

// build adds entries in file order and returns those that were kept.
func (b *builder) build(raw []rawEntry) []*Entry {
	b.resolveAll(raw)
	kept := make([]*Entry, 0, len(raw))
	for i := range raw {
		if e := b.entry(&raw[i]); e != nil {
			kept = append(kept, e)
		}
	}
	return kept
}

// resolveAll looks up the host names of all entries, several at a time.
// Addresses never get here.
func (b *builder) resolveAll(raw []rawEntry) {
	var names []string
	for i := range raw {
		h := raw[i].host
		if kindOf(h) != Host || !resolvable(h) {
			continue
		}
		if _, ok := parseAddr(h); ok {
			continue
		}
		if _, ok := b.names[h]; !ok {
			b.names[h] = hostAnswer{}
			names = append(names, h)
		}
	}
	answers := make([]hostAnswer, len(names))
	work := make(chan int)
	var wg sync.WaitGroup
	for range min(resolveWorkers, len(names)) {
		wg.Go(func() {
			for i := range work {
				answers[i] = lookupHost(b.ctx, b.o.Resolver, names[i])
			}
		})
	}
	for i := range names {
		work <- i
	}
	close(work)
	wg.Wait()
	for i, n := range names {
		b.names[n] = answers[i]
	}
}

// lookupHost asks within resolveTimeout, even of a resolver that does not heed
// its context.
func lookupHost(ctx context.Context, r Resolver, name string) hostAnswer {
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	done := make(chan hostAnswer, 1)
	go func() {
		var a hostAnswer
		a.canonical, a.addrs, a.err = r.LookupHost(ctx, name)
		done <- a
	}()
	select {
	case a := <-done:
		if a.err == nil && len(a.addrs) == 0 {
			a.err = fmt.Errorf("no address")
		}
		if a.canonical == "" {
			a.canonical = name
		}
		return a
	case <-ctx.Done():
		return hostAnswer{err: ctx.Err()}
	}
}

// entry adds one entry, or says why not.
func (b *builder) entry(r *rawEntry) *Entry {
	c := b.client(r)
	if c == nil {
		return nil
	}
	x := b.export(r)
	if first, dup := b.seen[pair{c, x}]; dup {
		b.duplicate(r, first)
		return nil
	}
	e := &Entry{Export: x, Client: *c, Options: r.set.finish(), Pos: r.hostAt.pos(), at: r.hostAt}
	e.Client.Written = r.host
	b.seen[pair{c, x}] = e
	if r.set.refused {
		// It still stands before a later entry for the same client, which
		// exportfs would ignore.
		return nil
	}
	x.Entries = append(x.Entries, e)
	b.checkSec(e)
	return e
}

// duplicate reports a client that the path has already: the first entry holds.
func (b *builder) duplicate(r *rawEntry, first *Entry) {
	what := "the same options"
	o := r.set.finish()
	if r.set.list() != first.Options.set.list() || !slices.Equal(o.Sec, first.Options.Sec) {
		what = "other options, which are ignored"
	}
	host := r.host
	if host != first.Client.Name {
		host += " (that is, " + first.Client.String() + ")"
	}
	if host == "" {
		host = "everyone"
	}
	b.rep.fails(r.hostAt, fmt.Sprintf("the first entry is at line %d of %s", first.Pos.Line, first.Pos.File),
		"%s has %s already; this entry has %s", first.Export.Path, host, what)
}

// export returns the export of a path as written, the same one for all that
// lead to one directory.
func (b *builder) export(r *rawEntry) *Export {
	if x, ok := b.paths[r.path]; ok {
		return x
	}
	canonical, err := resolvePath(b.o.Root, r.path, b.known)
	if err != nil {
		canonical = r.path
	}
	x, old := b.table.byPath[canonical]
	if !old {
		x = &Export{Path: canonical}
		b.table.byPath[canonical] = x
		b.checkPath(r, canonical)
	}
	b.paths[r.path] = x
	return x
}

// checkPath warns of a path that clients could not mount now. It stays in the
// table, as with exportfs: it may be mounted later.
func (b *builder) checkPath(r *rawEntry, canonical string) {
	if !strings.HasPrefix(canonical, "/") {
		b.rep.fails(r.pathAt, "write the path from the root: /…", "the path %q is relative: no client can mount it", canonical)
		return
	}
	switch fi, err := os.Stat(hostPath(b.o.Root, canonical)); {
	case err != nil:
		b.rep.fails(r.pathAt, "clients cannot mount it until it exists", "%s: %s", canonical, reason(err))
	case !fi.IsDir():
		b.rep.fails(r.pathAt, "exports are directories", "%s is not a directory", canonical)
	}
}

// client returns the client record of an entry, one for all that exportfs
// takes for the same, or nil after saying why not.
func (b *builder) client(r *rawEntry) *Client {
	kind := kindOf(r.host)
	if kind == Host {
		return b.host(r)
	}
	name := string('0'+rune(kind)) + strings.ToLower(r.host)
	if c, ok := b.clients[name]; ok {
		return c
	}
	c := &Client{Kind: kind, Name: r.host}
	ok := true
	switch kind {
	case Network:
		ok = b.network(r, c)
	case Wildcard, Netgroup:
		ok = b.pattern(r, c)
	case GSS:
		b.rep.at(r.hostAt, Warning, "use sec=sys with a host instead", "%s never matches: RPCSEC_GSS is not served here", r.host)
	}
	if !ok {
		return nil
	}
	b.clients[name] = c
	return c
}

func (b *builder) network(r *rawEntry, c *Client) bool {
	n, wrong, hint := parseNetwork(r.host)
	if wrong != "" {
		b.rep.at(r.hostAt, Error, hint, "%s in %s; this entry is left out", wrong, r.host)
		return false
	}
	if !n.contiguous() {
		b.rep.at(r.hostAt, Warning, "255.255.255.0 is a usual mask", "the mask of %s has holes", r.host)
	}
	if n.mask == (key{}) && n.base == (key{}) && !strings.HasPrefix(r.host, "0.0.0.0/") && !strings.HasPrefix(r.host, "::/") {
		b.rep.at(r.hostAt, Warning, "", "%s is every address, whatever stands before the slash", r.host)
	}
	c.network = n
	return true
}

// pattern checks a wildcard or a netgroup for what cannot work.
func (b *builder) pattern(r *rawEntry, c *Client) bool {
	host := r.host
	if unprintable(host) {
		b.rep.at(r.hostAt, Error, "", "a %s cannot contain white space or quotes; this entry is left out", c.Kind)
		return false
	}
	inner := strings.Trim(host, "[]")
	if _, err := netip.ParseAddr(inner); err == nil && inner != host {
		b.rep.at(r.hostAt, Warning, "write "+inner, "%s in brackets is a character class of a host name, not an address", inner)
		return true
	}
	switch {
	case host == "@":
		b.rep.at(r.hostAt, Warning, "write @NETGROUP", "@ alone names no netgroup and matches nobody")
	case c.Kind == Wildcard && strings.Trim(host, "0123456789.*?") == "" && strings.ContainsAny(host, "0123456789"):
		b.rep.at(r.hostAt, Warning, "write a network: 192.0.2.0/24", "wildcards match host names and never addresses: %s matches nobody", host)
	}
	return true
}

// host returns the record of a host by name or address.
func (b *builder) host(r *rawEntry) *Client {
	a := b.hostAnswer(r)
	if len(a.addrs) == 0 {
		return nil
	}
	var rec *hostRecord
	for _, addr := range a.addrs {
		if known := b.byAddr[addr]; known != nil && (rec == nil || known.order < rec.order) {
			rec = known
		}
	}
	if rec != nil {
		return rec.client
	}
	b.nhosts++
	rec = &hostRecord{&Client{Kind: Host, Name: a.canonical}, b.nhosts}
	for _, addr := range a.addrs[:min(len(a.addrs), maxHostAddrs)] {
		b.byAddr[addr] = rec
		rec.client.Addrs = append(rec.client.Addrs, addr.Unmap())
	}
	return rec.client
}

// hostAnswer returns what a host resolves to; no address if it does not, which
// has been reported.
func (b *builder) hostAnswer(r *rawEntry) hostAnswer {
	if addr, ok := parseAddr(r.host); ok {
		return hostAnswer{canonical: r.host, addrs: []netip.Addr{addr}}
	}
	if addr, ok := inetAton(r.host); ok {
		b.rep.at(r.hostAt, Error, "exportfs would take it for "+addr.String(), "%s is not an IPv4 address of four decimal numbers; this entry is left out", r.host)
		return hostAnswer{}
	}
	a, asked := b.names[r.host]
	switch {
	case !asked:
		b.rep.at(r.hostAt, Warning, hostHint(r.host), "%q is neither a host name nor an address; this entry is left out", r.host)
	case a.err != nil:
		b.table.unresolved++
		b.rep.at(r.hostAt, Warning, hostHint(r.host), "cannot resolve the host %s: %v; this entry is left out", r.host, a.err)
		return hostAnswer{}
	}
	return a
}

// hostHint guesses at what was meant with a host that does not resolve.
func hostHint(host string) string {
	name := strings.TrimPrefix(host, "-")
	_, option := options[name]
	switch {
	case option:
		return name + " is an option: options follow a client in parentheses, as in client(" + name + ")"
	case host == "\\":
		return "a backslash continues a line only as its very last byte"
	case strings.Contains(host, "#"):
		return "a comment needs a blank before #"
	case strings.Contains(host, ","):
		return "clients are separated by blanks"
	case strings.Contains(host, "%"):
		return "the zone must be an interface of this machine"
	}
	return ""
}
