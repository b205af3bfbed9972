package export

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// unasked is a resolver that must not be asked.
type unasked struct{ t testing.TB }

func (u unasked) LookupHost(_ context.Context, name string) (string, []netip.Addr, error) {
	u.t.Errorf("LookupHost(%s)", name)
	return "", nil, errNoHost
}

func (u unasked) LookupAddr(_ context.Context, a netip.Addr) ([]string, error) {
	u.t.Errorf("LookupAddr(%s)", a)
	return nil, errNoHost
}

func (u unasked) LookupNetgroup(_ context.Context, g string) ([]string, error) {
	u.t.Errorf("LookupNetgroup(%s)", g)
	return nil, errNoHost
}

func matchName(e *Entry) string {
	if e == nil {
		return "nobody"
	}
	return e.Client.String()
}

// TestMatch covers what the cases cannot ask exportfs: IPv6, and the
// answers of ours that differ.
func TestMatch(t *testing.T) {
	root := tree(t)
	for _, c := range []struct{ clients, addr, want string }{
		// IPv4-mapped addresses are IPv4, on both sides.
		{"1.2.3.4(ro)", "::ffff:1.2.3.4", "1.2.3.4"},
		{"::ffff:1.2.3.4(ro)", "1.2.3.4", "::ffff:1.2.3.4"},
		{"::ffff:10.0.0.0/104(ro)", "10.9.9.9", "::ffff:10.0.0.0/104"},
		{"10.0.0.0/8(ro)", "::ffff:10.1.2.3", "10.0.0.0/8"},
		{"::/0(ro)", "10.1.2.3", "nobody"},
		{"0.0.0.0/0(ro)", "2001:db8::1", "nobody"},
		{"0.0.0.0/0(ro)", "255.255.255.255", "0.0.0.0/0"},
		{"::/0(ro)", "ffff::1", "::/0"},
		{"2001:db8::/32(ro)", "2001:db8:ffff::1", "2001:db8::/32"},
		{"2001:db8::/33(ro)", "2001:db8:ffff::1", "nobody"},
		{"2001:db8::/65(ro)", "2001:db8::7fff:0:0:1", "2001:db8::/65"},
		{"2001:db8::/65(ro)", "2001:db8::8000:0:0:1", "nobody"},
		{"2001:db8::/ffff:ffff::(ro)", "2001:db8:1::", "2001:db8::/ffff:ffff::"},
		{"2001:db8::1/128(ro) 2001:db8::/64(ro)", "2001:db8::2", "2001:db8::/64"},
		{"10.1.2.3/8(ro)", "10.200.0.1", "10.1.2.3/8"},
		{"10.0.0.0/31(ro)", "10.0.0.2", "nobody"},
		{"10.0.0.0/32(ro)", "10.0.0.0", "10.0.0.0/32"},
		// Precedence is by kind, then by the file.
		{"* *.org(ro) 10.0.0.0/8(ro) big(ro)", "10.9.9.9", "big.example.org"},
		{"* *.org(ro) 10.0.0.0/8(ro)", "10.9.9.9", "10.0.0.0/8"},
		{"10.0.0.0/8(ro) 10.9.9.0/24(ro)", "10.9.9.9", "10.0.0.0/8"},
		{"@grp(ro) *.org(ro)", "10.9.9.10", "*.org"},
		{"* @grp(ro)", "10.9.9.10", "@grp"},
		// Names and netgroups.
		{"*.EXAMPLE.ORG(ro)", "10.9.9.9", "*.EXAMPLE.ORG"},
		{"alias*(ro)", "10.9.9.9", "alias*"},
		{"*.*(ro)", "10.1.1.1", "nobody"},
		{"10.*(ro) 10.9.9.?(ro)", "10.9.9.9", "nobody"},
		{"@nest(ro)", "10.9.9.9", "@nest"},
		{"@grp(ro)", "2001:db8::9", "@grp"},
		{"@grp(ro)", "10.9.9.77", "@grp"}, // by address: nfs-utils also wants a reverse name
		{"@nest(ro)", "10.9.9.11", "nobody"},
		{"@nosuch(ro) *(ro)", "10.9.9.9", "*"},
		{"gss/krb5(ro)", "10.9.9.9", "nobody"},
		{"multi.example.org(ro)", "10.9.9.13", "multi.example.org"},
		// A zone is part of a link-local address.
		{"fe80::1%lo(ro)", "fe80::1%lo", "fe80::1%lo"},
		{"fe80::1%lo(ro)", "fe80::1", "nobody"},
		// An entry of an unserved flavour still matches: it refuses.
		{"10.9.9.9(sec=krb5) *(ro)", "10.9.9.9", "10.9.9.9"},
	} {
		table, diags := load(t, root, "/E/a "+c.clients+"\n")
		m := NewMatcher(table, caseHosts(t))
		got := matchName(m.MatchWait(context.Background(), table.Export("/E/a"), netip.MustParseAddr(c.addr)))
		if got != c.want {
			t.Errorf("%s for %s: %s, want %s\n%v", c.clients, c.addr, got, c.want, diags)
		}
		x := m.Why(context.Background(), "/E/a/b/c", netip.MustParseAddr(c.addr))
		if matchName(x.Entry) != c.want {
			t.Errorf("Why(%s for %s): %s", c.clients, c.addr, matchName(x.Entry))
		}
	}
}

func TestFlavor(t *testing.T) {
	root := tree(t)
	for _, c := range []struct {
		options  string
		sys, nil string // ro/rw and squashing, or "refused"
	}{
		{"ro", "ro root secure", "refused"},
		{"sec=krb5", "refused", "refused"},
		{"sec=krb5:sys,rw,insecure", "rw root insecure", "refused"},
		{"sec=none,all_squash,sec=sys,no_root_squash,no_all_squash", "ro none secure", "ro all secure"},
		{"rw,no_root_squash,sec=krb5,ro,sec=sys,all_squash", "ro all secure", "refused"},
		{"sec=sys,insecure,sec=none,secure", "ro root insecure", "ro root secure"},
	} {
		table, _ := load(t, root, "/E/a *("+c.options+")\n")
		e := table.Export("/E/a").Entries[0]
		for flavor, want := range map[uint32]string{AUTH_SYS: c.sys, AUTH_NONE: c.nil} {
			got := "refused"
			if f, ok := e.Flavor(flavor); ok {
				got = is(f.ReadOnly, "ro", "rw") + " " + is(f.AllSquash, "all", is(f.RootSquash, "root", "none")) + " " + is(f.Secure, "secure", "insecure")
			}
			if served := slices.Contains(e.Flavors(nil), flavor); served != (want != "refused") {
				t.Errorf("%s, flavour %d: served %v", c.options, flavor, served)
			}
			if got != want {
				t.Errorf("%s, flavour %d: %s, want %s", c.options, flavor, got, want)
			}
		}
	}
}

// TestSquash has its values from fs/nfsd/auth.c, nfsd_setuser.
func TestSquash(t *testing.T) {
	const none = ^uint32(0)
	root := FlavorOptions{RootSquash: true, AnonUID: 150, AnonGID: 100}
	all := FlavorOptions{RootSquash: true, AllSquash: true, AnonUID: 150, AnonGID: 100}
	no := FlavorOptions{AnonUID: 150, AnonGID: 100}
	for _, c := range []struct {
		f        FlavorOptions
		uid, gid uint32
		groups   []uint32
		u, g     uint32
		gs       []uint32
	}{
		{root, 0, 0, []uint32{0, 5, 0}, 150, 100, []uint32{100, 5, 100}},
		{root, 1, 0, []uint32{7}, 1, 100, []uint32{7}},
		{root, 0, 1, nil, 150, 1, nil},
		{root, none, none, nil, 150, 100, nil},
		{all, 5, 6, []uint32{7, 8}, 150, 100, nil},
		{all, 0, 0, []uint32{0}, 150, 100, nil},
		{no, 0, 0, []uint32{0, 4}, 0, 0, []uint32{0, 4}},
		{no, none, 3, []uint32{0}, 150, 3, []uint32{0}},
	} {
		u, g, gs := c.f.Squash(c.uid, c.gid, c.groups, nil)
		if u != c.u || g != c.g || !slices.Equal(gs, c.gs) {
			t.Errorf("%+v: %d %d %v, want %d %d %v", c, u, g, gs, c.u, c.g, c.gs)
		}
	}
	dst := make([]uint32, 0, 16)
	groups := []uint32{0, 1, 2, 3}
	if n := testing.AllocsPerRun(100, func() { _, _, _ = root.Squash(0, 0, groups, dst) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestWildmat: the rules of wildmat.c, 1991, as nfs-utils has them.
func TestWildmat(t *testing.T) {
	for _, c := range []struct {
		text, pattern string
		want          bool
	}{
		{"a.b.c", "*", true}, {"a.b.c", "a*c", true}, {"a.b.c", "a?b?c", true},
		{"abc", "a[b-d]c", true}, {"aCc", "a[b-d]c", false}, {"ABC", "abc", true},
		{"aec", "a[^b-d]c", true}, {"abc", "a[^b-d]c", false}, {"abc", "a[B]c", true},
		{"a]c", "a[]]c", true}, {"a-c", "a[-x]c", true}, {"a-c", "a[x-]c", true},
		{"abc", "ab", false}, {"ab", "abc", false}, {"", "*", true}, {"", "", true}, {"", "?", false},
		{"a*c", `a\*c`, true}, {"abc", `a\*c`, false}, {"abcabd", "*ab?", true},
		{"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", "*a*a*a*a*a*a*a*a*a*a*a*a*c", false},
		{"mississippi", "*iss*p*i", true}, {"x", "[", false}, {"abc", "***c", true},
	} {
		if got := wildmat(c.text, c.pattern); got != c.want {
			t.Errorf("wildmat(%q, %q) = %v", c.text, c.pattern, got)
		}
	}
}

func TestFind(t *testing.T) {
	table, _ := load(t, tree(t), "/ 10.0.0.1(ro)\n/E 10.0.0.2(ro) 10.0.0.1(ro)\n/E/a 10.0.0.3(ro)\n")
	m := NewMatcher(table, unasked{t})
	for _, c := range []struct{ path, addr, want string }{
		{"/E/a/sub/x", "10.0.0.3", "/E/a"},
		{"/E/a/sub/x", "10.0.0.2", "/E"},
		{"/E/ab", "10.0.0.3", ""},
		{"/E/a", "10.0.0.1", "/E"},
		{"/x", "10.0.0.1", "/"},
		{"/", "10.0.0.1", "/"},
		{"/x", "10.0.0.2", ""},
		{"E/a", "10.0.0.3", ""},
		{"", "10.0.0.1", ""},
	} {
		x, e := m.Find(context.Background(), c.path, netip.MustParseAddr(c.addr))
		got := ""
		if x != nil {
			got = x.Path
		}
		if got != c.want || (e != nil) != (x != nil) {
			t.Errorf("%s for %s: %q, want %q", c.path, c.addr, got, c.want)
		}
	}
}

func TestWhyAndShow(t *testing.T) {
	table, _ := load(t, tree(t), "/E *(ro)\n/E/a 10.0.0.0/8(ro) big(rw,insecure,anonuid=7) @grp(ro)\n")
	m := NewMatcher(table, caseHosts(t))
	var out bytes.Buffer
	if err := m.Why(context.Background(), "/E/a/x", netip.MustParseAddr("10.9.9.9")).Format(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"> host     exports:2:21: 10.9.9.9 is big.example.org (10.9.9.9)\n",
		"+ network  exports:2:6: 10.9.9.9 is in 10.0.0.0/8\n",
		"- netgroup exports:2:48: big.example.org, big, alias9 is not in netgroup grp\n",
		"10.9.9.9 gets /E/a by big.example.org, exports:2:21:\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	out.Reset()
	if err := table.ShowTable(&out); err != nil || !strings.Contains(out.String(), "rw,insecure,anonuid=7") {
		t.Errorf("%v\n%s", err, out.String())
	}
	out.Reset()
	var list []map[string]any
	if err := table.ShowJSON(&out); err != nil || json.Unmarshal(out.Bytes(), &list) != nil || len(list) != 4 {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// BenchmarkMatch asks 10,000 exports for 10,000 clients.
func BenchmarkMatch(b *testing.B) {
	var one strings.Builder
	one.WriteString("/all")
	for i := range 10000 {
		fmt.Fprintf(&one, " 10.%d.%d.1(ro)", i>>8, i&255)
	}
	for i := range 10000 {
		fmt.Fprintf(&one, "\n/x/%d 10.%d.%d.1(ro) 10.%d.0.0/16(ro) *(ro)", i, i>>8, i&255, i>>8)
	}
	table, _, _ := parseTable(context.Background(), "exports", []byte(one.String()), LoadOptions{Root: b.TempDir()})
	m := NewMatcher(table, unasked{b})
	addrs := make([]netip.Addr, 10000)
	for i := range addrs {
		addrs[i] = netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 1})
	}
	exports := table.Exports()
	run := func(name string, pick func(i int) *Export) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := range b.N {
				if _, known := m.Match(pick(i), addrs[i%len(addrs)]); !known {
					b.Fatal("not known")
				}
			}
		})
	}
	all := table.Export("/all")
	run("one export of 10,000 clients", func(int) *Export { return all })
	run("10,000 exports", func(i int) *Export { return exports[1+i*7919%(len(exports)-1)] })
}

func BenchmarkLoad(b *testing.B) {
	o := manyExports(b, 10000)
	b.ResetTimer()
	for b.Loop() {
		if _, _, err := Load(context.Background(), o); err != nil {
			b.Fatal(err)
		}
	}
}
