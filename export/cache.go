package export

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

// CacheOptions bound a Cache. Zero fields take the defaults given with them.
type CacheOptions struct {
	Lifetime         time.Duration // of what was found: 10 minutes
	NegativeLifetime time.Duration // of what was not: 30 seconds
	Timeout          time.Duration // of one look-up: 5 seconds
	MaxEntries       int           // of names and netgroups each: 65,536
	MaxLookups       int           // at a time: 64
}

func (o CacheOptions) withDefaults() CacheOptions {
	set := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	set(&o.Lifetime, 10*time.Minute)
	set(&o.NegativeLifetime, 30*time.Second)
	set(&o.Timeout, resolveTimeout)
	if o.MaxEntries <= 0 {
		o.MaxEntries = 65536
	}
	if o.MaxLookups <= 0 {
		o.MaxLookups = 64
	}
	return o
}

// Cache remembers what a Resolver says about clients: confirmed names of
// addresses, members of netgroups. Looking into it never waits. A Cache may
// outlive tables and serve several Matchers.
//
// An answer past its lifetime is still given while it is asked for anew, up to
// as long again; then it is gone. Only a definite "not found" replaces an
// answer early: a name service that is down for a while locks nobody out.
type Cache struct {
	r     Resolver
	slots chan struct{}

	names  answers[netip.Addr, []string]
	groups answers[string, *netgroup]
}

// netgroup is the hosts of a netgroup, in lower case.
type netgroup struct{ hosts map[string]struct{} }

// NewCache returns a cache before r, or before SystemResolver() if r is nil.
func NewCache(r Resolver, o CacheOptions) *Cache {
	if r == nil {
		r = SystemResolver()
	}
	o = o.withDefaults()
	c := &Cache{r: r, slots: make(chan struct{}, o.MaxLookups)}
	c.names.init(o, c.slots, c.lookupNames)
	c.groups.init(o, c.slots, c.lookupGroup)
	return c
}

// Refresh has everything asked for anew when it is next wanted. What is known
// is still given meanwhile; what was not found is forgotten.
func (c *Cache) Refresh() {
	c.names.refresh()
	c.groups.refresh()
}

// lookupNames returns the names of an address that resolve to that address
// again; anybody can claim any name for an address of his own.
func (c *Cache) lookupNames(ctx context.Context, addr netip.Addr) ([]string, error) {
	reverse, err := c.r.LookupAddr(ctx, addr)
	if err != nil {
		return nil, err
	}
	var names []string
	var failed error
	for _, name := range reverse[:min(len(reverse), maxHostNames)] {
		canonical, addrs, err := c.r.LookupHost(ctx, name)
		if err != nil {
			failed = err
			continue
		}
		if !slices.ContainsFunc(addrs, func(a netip.Addr) bool { return a.Unmap() == addr }) {
			continue
		}
		for _, n := range []string{name, canonical} {
			n = strings.TrimSuffix(n, ".")
			same := func(x string) bool { return strings.EqualFold(x, n) }
			if n != "" && !slices.ContainsFunc(names, same) {
				names = append(names, n)
			}
		}
	}
	if len(names) == 0 && failed != nil {
		return nil, failed
	}
	return names, nil
}

func (c *Cache) lookupGroup(ctx context.Context, group string) (*netgroup, error) {
	hosts, err := c.r.LookupNetgroup(ctx, group)
	if err != nil {
		return nil, err
	}
	g := &netgroup{make(map[string]struct{}, len(hosts))}
	for _, h := range hosts {
		if h != "" && h != "-" { // exports(5): empty host parts are ignored
			g.hosts[strings.ToLower(h)] = struct{}{}
		}
	}
	return g, nil
}

// has reports whether a host is a member: by one of its names, by its address,
// or by the first label of a name (nfs-utils, check_netgroup).
func (g *netgroup) has(names []string, addr netip.Addr) bool {
	if g == nil || len(g.hosts) == 0 {
		return false
	}
	if _, ok := g.hosts[addr.String()]; ok {
		return true
	}
	for _, n := range names {
		n = strings.ToLower(n)
		if _, ok := g.hosts[n]; ok {
			return true
		}
		if short, _, dotted := strings.Cut(n, "."); dotted {
			if _, ok := g.hosts[short]; ok {
				return true
			}
		}
	}
	return false
}

// answers is one kind of answer of a cache.
type answers[K comparable, V any] struct {
	o      CacheOptions
	slots  chan struct{}
	lookup func(context.Context, K) (V, error)

	mu   sync.RWMutex
	m    map[K]answer[V]
	busy map[K]*flight[V]
}

type answer[V any] struct {
	v        V
	negative bool
	until    time.Time // ask anew from then on
	gone     time.Time // do not answer from then on
}

// flight is a look-up under way; many may wait for one.
type flight[V any] struct {
	done chan struct{}
	v    V
}

func (a *answers[K, V]) init(o CacheOptions, slots chan struct{}, lookup func(context.Context, K) (V, error)) {
	a.o, a.slots, a.lookup = o, slots, lookup
	a.m, a.busy = map[K]answer[V]{}, map[K]*flight[V]{}
}

func (a *answers[K, V]) refresh() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for k, got := range a.m {
		if got.negative {
			delete(a.m, k)
			continue
		}
		got.until = time.Time{}
		a.m[k] = got
	}
}

// peek returns what is known of k, without waiting.
func (a *answers[K, V]) peek(k K) (v V, known bool) {
	now := time.Now()
	a.mu.RLock()
	got, ok := a.m[k]
	a.mu.RUnlock()
	if !ok || !now.Before(got.gone) {
		return v, false
	}
	if !now.Before(got.until) {
		a.start(k)
	}
	return got.v, true
}

// get returns what is known of k, waiting for it if need be. Nothing is known
// of it in the end if ctx is done before.
func (a *answers[K, V]) get(ctx context.Context, k K) (v V, known bool) {
	if v, known = a.peek(k); known {
		return v, true
	}
	f := a.start(k)
	select {
	case <-f.done:
		return f.v, true
	case <-ctx.Done():
		return v, false
	}
}

// start asks for k unless that is under way already.
func (a *answers[K, V]) start(k K) *flight[V] {
	a.mu.Lock()
	defer a.mu.Unlock()
	if f := a.busy[k]; f != nil {
		return f
	}
	f := &flight[V]{done: make(chan struct{})}
	a.busy[k] = f
	go a.fly(k, f)
	return f
}

// fly asks, with the look-up in a goroutine of its own: one that heeds no
// context keeps its slot until it returns, but nobody waits longer than the
// timeout.
func (a *answers[K, V]) fly(k K, f *flight[V]) {
	ctx, cancel := context.WithTimeout(context.Background(), a.o.Timeout)
	defer cancel()
	type result struct {
		v   V
		err error
	}
	done := make(chan result, 1)
	var r result
	select {
	case a.slots <- struct{}{}:
		go func() {
			defer func() { <-a.slots }()
			var r result
			r.v, r.err = a.lookup(ctx, k)
			done <- r
		}()
		select {
		case r = <-done:
		case <-ctx.Done():
			r.err = ctx.Err()
		}
	case <-ctx.Done():
		r.err = ctx.Err()
	}
	a.land(k, f, r.v, r.err)
}

// land keeps an answer and tells those who wait.
func (a *answers[K, V]) land(k K, f *flight[V], v V, err error) {
	now := time.Now()
	got := answer[V]{v: v, until: now.Add(a.o.Lifetime), gone: now.Add(2 * a.o.Lifetime)}
	if err != nil {
		got.negative = true
		got.until = now.Add(a.o.NegativeLifetime)
		got.gone = got.until
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	old, had := a.m[k]
	if had && err != nil && !notFound(err) && !old.negative && now.Before(old.gone) {
		// A passing fault: what was known holds, and is asked for again later.
		got = old
		got.until = now.Add(a.o.NegativeLifetime)
	}
	if !had && len(a.m) >= a.o.MaxEntries {
		a.evict(now)
	}
	a.m[k] = got
	f.v = got.v
	delete(a.busy, k)
	close(f.done)
}

// evict makes room: what is gone goes, and else some eighth of the rest, which
// a map yields in random order.
func (a *answers[K, V]) evict(now time.Time) {
	for k, got := range a.m {
		if !now.Before(got.gone) {
			delete(a.m, k)
		}
	}
	for k := range a.m {
		if len(a.m) <= a.o.MaxEntries*7/8 {
			return
		}
		delete(a.m, k)
	}
}

// notFound reports whether the name service knows that there is no answer.
func notFound(err error) bool {
	var nf interface{ NotFound() bool }
	if errors.As(err, &nf) {
		return nf.NotFound()
	}
	return isDNSNotFound(err)
}
