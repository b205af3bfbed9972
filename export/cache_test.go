package export

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// fakeNames is a resolver that takes its time for some addresses.
type fakeNames struct {
	*hostsFile
	slow   map[netip.Addr]time.Duration
	deaf   bool // ignores its context
	fail   atomic.Pointer[error]
	calls  atomic.Int64
	active atomic.Int64
	most   atomic.Int64
}

func (f *fakeNames) LookupAddr(ctx context.Context, a netip.Addr) ([]string, error) {
	f.calls.Add(1)
	if n := f.active.Add(1); n > f.most.Load() {
		f.most.Store(n)
	}
	defer f.active.Add(-1)
	if d := f.slow[a]; d > 0 {
		if f.deaf {
			time.Sleep(d)
		} else {
			select {
			case <-time.After(d):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	}
	if err := f.fail.Load(); err != nil {
		return nil, *err
	}
	return f.hostsFile.LookupAddr(ctx, a)
}

type definite struct{ error }

func (definite) NotFound() bool { return true }

func wildTable(t *testing.T) (*Table, *Export) {
	t.Helper()
	table, _ := load(t, tree(t), "/E/a *.example.org(ro) @grp(ro)\n")
	return table, table.Export("/E/a")
}

var (
	bigAddr = netip.MustParseAddr("10.9.9.9")
	h1Addr  = netip.MustParseAddr("10.9.9.10")
)

// TestSlowResolver: one name that takes 30 s delays nobody else, heeds it its
// context or not, and no longer than the timeout whoever waits for it.
func TestSlowResolver(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		t.Run(fmt.Sprintf("deaf=%v", deaf), func(t *testing.T) {
			table, x := wildTable(t)
			hosts := caseHosts(t)
			synctest.Test(t, func(t *testing.T) {
				f := &fakeNames{hostsFile: hosts, slow: map[netip.Addr]time.Duration{bigAddr: 30 * time.Second}, deaf: deaf}
				m := NewMatcher(table, f)
				slow := make(chan time.Duration, 1)
				start := time.Now()
				go func() {
					m.MatchWait(context.Background(), x, bigAddr)
					slow <- time.Since(start)
				}()
				synctest.Wait()
				if _, known := m.Match(x, bigAddr); known {
					t.Error("Match knows what is still being asked")
				}
				if e := m.MatchWait(context.Background(), x, h1Addr); e == nil || time.Since(start) > 0 {
					t.Errorf("another client got %v after %v", e, time.Since(start))
				}
				if e, known := m.Match(x, h1Addr); !known || e == nil {
					t.Error("Match does not know what has been resolved")
				}
				if d := <-slow; d != resolveTimeout {
					t.Errorf("the slow client waited %v", d)
				}
				if e, known := m.Match(x, bigAddr); !known || e != nil {
					t.Error("the time-out is not remembered")
				}
				time.Sleep(time.Minute) // lets the deaf one end
			})
		})
	}
}

// TestWaitCancelled: who gives up decides nothing.
func TestWaitCancelled(t *testing.T) {
	table, _ := load(t, tree(t), "/E/a *.example.org(ro) *(ro,insecure)\n")
	x, hosts := table.Export("/E/a"), caseHosts(t)
	synctest.Test(t, func(t *testing.T) {
		m := NewMatcher(table, &fakeNames{hostsFile: hosts, slow: map[netip.Addr]time.Duration{bigAddr: 3 * time.Second}})
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if e := m.MatchWait(ctx, x, bigAddr); e != nil {
			t.Errorf("got %s", e.Client)
		}
		if e := m.MatchWait(context.Background(), x, bigAddr); matchName(e) != "*.example.org" {
			t.Errorf("got %s", matchName(e))
		}
	})
}

// TestSingleFlight: many askers, one question; and a bound on questions.
func TestSingleFlight(t *testing.T) {
	table, x := wildTable(t)
	hosts := caseHosts(t)
	synctest.Test(t, func(t *testing.T) {
		f := &fakeNames{hostsFile: hosts, slow: map[netip.Addr]time.Duration{bigAddr: time.Second}}
		m := NewMatcher(table, f)
		done := make(chan *Entry)
		for range 100 {
			go func() { done <- m.MatchWait(context.Background(), x, bigAddr) }()
		}
		for range 100 {
			if e := <-done; e == nil {
				t.Error("no match")
			}
		}
		if n := f.calls.Load(); n != 1 {
			t.Errorf("%d look-ups", n)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		addrs, slow := make([]netip.Addr, 100), map[netip.Addr]time.Duration{}
		for i := range addrs {
			addrs[i] = netip.AddrFrom4([4]byte{10, 8, 0, byte(i)})
			slow[addrs[i]] = 100 * time.Millisecond
		}
		f := &fakeNames{hostsFile: hosts, slow: slow}
		c := NewCache(f, CacheOptions{MaxLookups: 3, MaxEntries: 16})
		m := NewCachedMatcher(table, c)
		for _, a := range addrs {
			if _, known := m.Match(x, a); known {
				t.Error("known")
			}
			go m.MatchWait(context.Background(), x, a)
		}
		time.Sleep(time.Minute)
		c.names.mu.Lock()
		defer c.names.mu.Unlock()
		if f.most.Load() != 3 || len(c.names.m) > 16 {
			t.Errorf("%d at a time, %d kept", f.most.Load(), len(c.names.m))
		}
	})
}

// TestLifetimes: fresh, stale but served while asked anew, gone; a passing
// fault keeps what was known, a definite answer replaces it.
func TestLifetimes(t *testing.T) {
	table, _ := load(t, tree(t), "/E/a *.example.org(ro)\n")
	x, hosts := table.Export("/E/a"), caseHosts(t)
	synctest.Test(t, func(t *testing.T) {
		f := &fakeNames{hostsFile: hosts}
		c := NewCache(f, CacheOptions{Lifetime: 10 * time.Minute, NegativeLifetime: time.Minute})
		m := NewCachedMatcher(table, c)
		check := func(what string, match, wantKnown bool, calls int64) {
			t.Helper()
			e, known := m.Match(x, bigAddr)
			synctest.Wait()
			if known != wantKnown || (e != nil) != match || f.calls.Load() != calls {
				t.Errorf("%s: match %v known %v, %d look-ups, want %v %v %d", what, e != nil, known, f.calls.Load(), match, wantKnown, calls)
			}
		}
		check("at first", false, false, 0)
		m.MatchWait(context.Background(), x, bigAddr)
		check("resolved", true, true, 1)
		time.Sleep(9 * time.Minute)
		check("fresh", true, true, 1)
		time.Sleep(2 * time.Minute)
		check("stale", true, true, 2)
		time.Sleep(9 * time.Minute)
		check("renewed", true, true, 2)
		var passing error = errors.New("server failure")
		f.fail.Store(&passing)
		time.Sleep(2 * time.Minute)
		check("stale again", true, true, 3)
		check("kept in spite of the fault", true, true, 3)
		time.Sleep(20 * time.Minute)
		check("gone", false, false, 3)
		f.fail.Store(nil)
		m.MatchWait(context.Background(), x, bigAddr)
		check("back", true, true, 4)
		var gone error = definite{errors.New("no such host")}
		f.fail.Store(&gone)
		time.Sleep(11 * time.Minute)
		check("stale for the last time", true, true, 5)
		check("not found", false, true, 5)
		time.Sleep(2 * time.Minute)
		check("not found is short-lived", false, false, 5)
		f.fail.Store(nil)
		m.MatchWait(context.Background(), x, bigAddr)
		check("back again", true, true, 6)
		c.Refresh()
		check("refreshing", true, true, 7)
		check("refreshed", true, true, 7)
	})
}

// TestUnconfirmed: a reverse name that does not lead back is no name.
func TestUnconfirmed(t *testing.T) {
	table, x := wildTable(t)
	h := caseHosts(t)
	liar := netip.MustParseAddr("10.66.66.66")
	h.byAddr[liar] = []string{"big.example.org", "h1"}
	m := NewMatcher(table, h)
	if e := m.MatchWait(context.Background(), x, liar); e != nil {
		t.Errorf("%s got in as %s", liar, e.Client)
	}
}

// TestSlowLoad: hosts that do not resolve in time cost one timeout together.
func TestSlowLoad(t *testing.T) {
	root := tree(t)
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		o := LoadOptions{Root: root, Resolver: hang{}}
		entries, diags := Parse("exports", []byte("/E/a a.example(ro) b.example(ro) c.example(ro) 10.0.0.1(ro)\n"), o)
		if d := time.Since(start); d != resolveTimeout || len(entries) != 1 || len(diags) != 3 {
			t.Errorf("took %v, kept %d entries\n%v", d, len(entries), diags)
		}
		time.Sleep(time.Minute)
	})
}

// hang answers nothing for 30 s.
type hang struct{}

func (hang) LookupHost(context.Context, string) (string, []netip.Addr, error) {
	time.Sleep(30 * time.Second)
	return "", nil, errNoHost
}

func (hang) LookupAddr(context.Context, netip.Addr) ([]string, error) {
	time.Sleep(30 * time.Second)
	return nil, errNoHost
}

func (hang) LookupNetgroup(context.Context, string) ([]string, error) {
	time.Sleep(30 * time.Second)
	return nil, errNoHost
}

func TestParseNetgroup(t *testing.T) {
	// As getent of glibc 2.36 prints it.
	hosts, err := parseNetgroup("grp                   (h1.example.org,,) (10.9.9.77,user,dom) ( ,u, ) (-,x,y)\n")
	if want := []string{"h1.example.org", "10.9.9.77", "", "-"}; err != nil || !slices.Equal(hosts, want) {
		t.Errorf("%q, %v", hosts, err)
	}
	if _, err := parseNetgroup("grp (a,b"); err == nil {
		t.Error("no error")
	}
	if hosts, err := parseNetgroup(""); err != nil || hosts != nil {
		t.Error(hosts, err)
	}
}

// TestSystemResolver asks this machine what every machine knows.
func TestSystemResolver(t *testing.T) {
	r := SystemResolver()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	name, addrs, err := r.LookupHost(ctx, "LOCALHOST")
	if err != nil || name != "localhost" || !slices.Contains(addrs, netip.MustParseAddr("127.0.0.1")) {
		t.Errorf("localhost: %q %v %v", name, addrs, err)
	}
	if _, err := r.LookupNetgroup(ctx, "-no such netgroup"); err == nil {
		t.Error("a netgroup that does not exist was found")
	}
}
