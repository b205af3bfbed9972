package numa

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

func request(t testing.TB, s string) Request {
	t.Helper()
	r, err := ParseRequest(s)
	if err != nil {
		t.Fatal(err)
	}
	if r.String() != s {
		t.Errorf("%q is written %q", s, r)
	}
	return r
}

func TestParseRequestErrors(t *testing.T) {
	for _, bad := range []string{"", "on", "AUTO", "node", "node=", "node=-1", "node=x", "node=1,2", "node=99999999", "netdev", "netdev=", "auto=1", "off=1"} {
		if r, err := ParseRequest(bad); err == nil || !strings.Contains(err.Error(), "node=N") {
			t.Errorf("%q: %v, %v", bad, r, err)
		}
	}
}

// summary is a plan without its reason: node:CPUs:memory, ! if strict.
func (p *Plan) summary() string {
	var s []string
	for _, n := range p.Nodes {
		strict := ""
		if n.Strict {
			strict = "!"
		}
		s = append(s, fmt.Sprintf("%d:%v:%d%s", n.Node, n.CPUs, n.Memory, strict))
	}
	return strings.Join(s, " ")
}

// Addresses of the fixtures' interfaces.
var addrs = map[string]string{
	"lo": "127.0.0.1", "ens1f0": "192.0.2.1", "eno1": "198.51.100.1", "docker0": "172.17.0.1",
	"bond0.100": "192.0.2.1", "bond1": "198.51.100.1", "eth0": "203.0.113.1", "enp97s0": "192.0.2.1", "enP48p1s0f0": "192.0.2.1",
}

func TestChoose(t *testing.T) {
	for _, row := range []struct {
		machine, request, listen string
		want, reason             string // reason: a part of it
	}{
		{"two-nodes", "off", "192.0.2.1", "", "as asked"},
		{"two-nodes", "node=0", "192.0.2.1", "0:0-7,16-23:0!", "as asked"},
		{"two-nodes", "netdev=ens1f0", "::", "1:8-15,24-31:1!", "ens1f0 is on node 1"},
		{"two-nodes", "netdev=eno1", "::", "", "the node of eno1 is not known"},
		// auto: the address's interface, whatever else there is.
		{"two-nodes", "auto", "192.0.2.1", "1:8-15,24-31:1", "ens1f0 is on node 1"},
		{"two-nodes", "auto", "::ffff:192.0.2.1", "1:8-15,24-31:1", "ens1f0 is on node 1"},
		{"two-nodes", "auto", "0.0.0.0", "1:8-15,24-31:1", "ens1f0 is on node 1"},
		{"two-nodes", "auto", "198.51.100.1", "0:0-7,16-23:0 1:8-15,24-31:1", "no interface"},
		{"two-nodes", "auto", "127.0.0.1", "0:0-7,16-23:0 1:8-15,24-31:1", "no interface"},
		{"bond-vlan", "auto", "192.0.2.1", "1:8-15:1", "bond0.100 is on node 1"},
		{"bond-vlan", "auto", "198.51.100.1", "0:0-7:0 1:8-15:1", "bond1 is on node 0-1"},
		{"bond-vlan", "auto", "::", "0:0-7:0 1:8-15:1", "bond0.100 is on node 1, bond1 is on node 0-1, eth0 is on node 0"},
		{"bond-vlan", "netdev=bond1", "::", "0:0-7:0! 1:8-15:1!", "bond1"},
		{"sixty-four", "auto", "192.0.2.1", "3:24-31,56-63:3", "enp97s0 is on node 3"},
		{"four-nodes-offline", "auto", "::", "0:0-3:0 1:4,6-7:1 2:8-11:2 3:14-15:3", "no interface"},
		{"four-nodes-offline", "node=3", "::", "3:14-15:3!", "as asked"},
		{"power9", "auto", "192.0.2.1", "8:64-127:8", "node 8"},
		{"power9", "node=8", "192.0.2.1", "8:64-127:8!", "as asked"},
		// A device on a node without CPUs: the nearest with.
		{"cxl", "auto", "203.0.113.1", "0:0-3:0", "node 2 has no CPUs, node 0 is the nearest"},
		// A node without memory: that of the nearest.
		{"memoryless", "node=1", "::", "1:4-7:0!", "as asked"},
		{"memoryless", "auto", "::", "0:0-3:0 1:4-7:0", "no interface"},
		// Nothing to choose.
		{"one-node", "auto", "::", "", "the machine has one node"},
		{"one-node", "node=0", "::", "", "the machine has one node"},
		{"one-node", "netdev=eth0", "::", "", "the machine has one node"},
		{"no-numa", "auto", "::", "", "the machine has one node"},
		{"no-sys", "auto", "::", "", "the machine has one node"},
	} {
		topo := readFixture(t, row.machine)
		for i, itf := range topo.Interfaces {
			if a := addrs[itf.Name]; a != "" {
				topo.Interfaces[i].Addrs = []netip.Addr{netip.MustParseAddr(a)}
			}
		}
		p, err := Choose(request(t, row.request), topo, []netip.Addr{netip.MustParseAddr(row.listen)})
		if err != nil || p.summary() != row.want || !strings.Contains(p.Reason, row.reason) || p.Mode != row.request {
			t.Errorf("%s, %s, on %s: %+v, %v; want %s because %s", row.machine, row.request, row.listen, p, err, row.want, row.reason)
		}
	}
}

// What a cpuset leaves is used; what it takes away is not insisted on.
func TestChooseInCpuset(t *testing.T) {
	for _, row := range []struct {
		cpus, mems, request string
		want, reason        string
	}{
		{"0-7,16-23", "0-1", "node=1", "", "may use CPUs 0-7,16-23 and memory of nodes 0-1 only"},
		{"0-7,16-23", "0-1", "netdev=ens1f0", "", "ens1f0 is on node 1, but this process may use CPUs"},
		{"0-7,16-23", "0-1", "auto", "", "may use CPUs 0-7,16-23 only"},
		{"7-8", "0-1", "node=1", "1:8:1!", "as asked"},
		{"7-8", "0-1", "auto", "1:8:1", "ens1f0"},
		{"0-31", "0", "node=1", "", "memory of nodes 0 only"},
		{"0-31", "0", "auto", "1:8-15,24-31:0", "ens1f0"},
		{"0-31", "0", "node=0", "0:0-7,16-23:0!", "as asked"},
	} {
		topo := readFixture(t, "two-nodes")
		topo.CPUs, topo.Mems = list(t, row.cpus), list(t, row.mems)
		topo.netdev("ens1f0").Addrs = []netip.Addr{netip.MustParseAddr("192.0.2.1")}
		p, err := Choose(request(t, row.request), topo, []netip.Addr{netip.IPv4Unspecified()})
		if err != nil || p.summary() != row.want || !strings.Contains(p.Reason, row.reason) {
			t.Errorf("CPUs %s, memory %s, %s: %+v, %v; want %s because %s", row.cpus, row.mems, row.request, p, err, row.want, row.reason)
		}
	}
}

// A wrong name is an error, on every machine, and says which would be right.
func TestChooseErrors(t *testing.T) {
	for _, row := range []struct{ machine, request, want string }{
		{"two-nodes", "node=2", "0-1"},
		{"one-node", "node=1", "0"},
		{"power9", "node=1", "0,8"},
		{"power9", "node=252", "node 252 has no CPUs; nodes with CPUs: 0,8"},
		{"cxl", "node=2", "node 2 has no CPUs; nodes with CPUs: 0-1"},
		{"two-nodes", "netdev=eth9", "docker0 eno1 ens1f0 lo"},
		{"two-nodes", "netdev=bonding_masters", "docker0 eno1 ens1f0 lo"},
	} {
		p, err := Choose(request(t, row.request), readFixture(t, row.machine), nil)
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s, %s: %+v, %v; want %s", row.machine, row.request, p, err, row.want)
		}
	}
}

// Interrupts on another node than the threads are worth a word.
func TestChooseNotesInterrupts(t *testing.T) {
	p, err := Choose(request(t, "netdev=enp97s0"), readFixture(t, "sixty-four"), nil)
	if err != nil || len(p.Notes) != 1 || !strings.Contains(p.Notes[0], "enp97s0 go to CPUs 0 on node 0") {
		t.Errorf("%+v, %v", p, err)
	}
	p, err = Choose(request(t, "netdev=ens1f0"), readFixture(t, "two-nodes"), nil)
	if err != nil || len(p.Notes) != 0 {
		t.Errorf("%+v, %v", p, err)
	}
}

// Threads go to the nodes in turn, and their names fit the kernel's 15
// characters.
func TestPlace(t *testing.T) {
	two, err := Choose(request(t, "auto"), readFixture(t, "two-nodes"), nil)
	if err != nil {
		t.Fatal(err)
	}
	one, err := Choose(request(t, "node=1"), readFixture(t, "two-nodes"), nil)
	if err != nil {
		t.Fatal(err)
	}
	none, err := Choose(request(t, "off"), readFixture(t, "two-nodes"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		got, want string
	}{
		{two.Place(0).ThreadName("t", 0), "sl-n0-t00"},
		{two.Place(3).ThreadName("t", 3), "sl-n1-t03"},
		{one.Place(4).ThreadName("t", 4), "sl-n1-t04"},
		{none.Place(0).ThreadName("t", 0), "sl-t00"},
		{one.Shared().ThreadName("w", 7), "sl-n1-w07"},
		{two.Shared().ThreadName("w", 7), "sl-w07"},
		{Placement{Node: 1023, CPUs: List{0}}.ThreadName("t", 1023), "sl-n1023-t1023"},
	} {
		if row.got != row.want || len(row.got) > 15 {
			t.Errorf("%s, want %s", row.got, row.want)
		}
	}
	if two.CPUs() != 32 || one.CPUs() != 16 || none.CPUs() != 0 {
		t.Errorf("%d, %d and %d CPUs, want 32, 16 and 0", two.CPUs(), one.CPUs(), none.CPUs())
	}
}
