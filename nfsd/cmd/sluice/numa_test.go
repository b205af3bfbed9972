package main

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/ioctx"
	"sluice/ioctx/numa"
	"sluice/nfsd/sendpath"
)

// A wrong node or interface ends the start with status 2; the message lists those
// there are.
func TestNUMAErrors(t *testing.T) {
	for _, row := range []struct {
		value string
		want  string
	}{
		{"bogus", "node=N"}, {"node=65535", "nodes with CPUs: 0"}, {"node=", "node=N"},
		{"netdev=nosuchdev0", " lo"}, {"netdev=", "netdev=IF"},
	} {
		message := captureStderr(t, func() {
			status := run([]string{"serve", t.TempDir(), "--listen", "127.0.0.1:0", "--rpcbind", "off", "--sandbox", "off",
				"--state-dir", t.TempDir(), "--log-level", "error", "--numa", row.value})
			if status != exitUsage {
				t.Errorf("%s: exit status %d, want %d", row.value, status, exitUsage)
			}
		})
		if !strings.Contains(message, "--numa") || !strings.Contains(message, row.want) {
			t.Errorf("%s: %q does not say %q", row.value, message, row.want)
		}
	}
}

// captureStderr returns what f writes to standard error.
func captureStderr(t *testing.T, f func()) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	saved := os.Stderr
	os.Stderr = w
	f()
	os.Stderr = saved
	w.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// numaDaemon is one whose plan is for a machine with two nodes.
func numaDaemon(t *testing.T, request string, threads int) *daemon {
	t.Helper()
	r, err := numa.ParseRequest(request)
	if err != nil {
		t.Fatal(err)
	}
	topo := &numa.Topology{
		Nodes: []numa.Node{
			{ID: 0, CPUs: numa.List{0, 1}, Memory: true, Distances: map[int]int{0: 10, 1: 20}},
			{ID: 1, CPUs: numa.List{2, 3}, Memory: true, Distances: map[int]int{0: 20, 1: 10}},
		},
		CPUs: numa.List{0, 1, 2, 3}, Mems: numa.List{0, 1},
		Interfaces: []numa.Interface{{Name: "eth0", Nodes: numa.List{1}, IRQCPUs: numa.List{2}}, {Name: "lo"}},
	}
	topo.AddAddrs("eth0", []netip.Addr{netip.MustParseAddr("192.0.2.1")})
	plan, err := numa.Choose(r, topo, []netip.Addr{netip.MustParseAddr("127.0.0.1")})
	if err != nil {
		t.Fatal(err)
	}
	return &daemon{cfg: &config{numa: r, threads: threads, log: slog.New(slog.DiscardHandler)}, plan: plan, topology: topo}
}

func TestNUMAStatus(t *testing.T) {
	for _, row := range []struct{ request, want string }{
		{"node=1", `numa         node=1: node 1; as asked
  node 1     CPUs 2-3, memory of node 1 only: sl-n1-t00 sl-n1-t01 sl-n1-t02
  eth0       node 1, interrupts on CPUs 2
`},
		{"auto", `numa         auto: node 0-1; no interface that is listened on has a known node
  node 0     CPUs 0-1, memory of node 0 first: sl-n0-t00 sl-n0-t02
  node 1     CPUs 2-3, memory of node 1 first: sl-n1-t01
  eth0       node 1, interrupts on CPUs 2
`},
		{"off", `numa         off: threads run anywhere; as asked
  eth0       node 1, interrupts on CPUs 2
`},
	} {
		d := numaDaemon(t, row.request, 3)
		s := d.numaStatus([]ioctx.DeviceStats{{Name: "no-such-disk"}})
		var b strings.Builder
		s.print(&b)
		if b.String() != row.want {
			t.Errorf("%s:\n%s, want\n%s", row.request, b.String(), row.want)
		}
		// What the socket carries says the same.
		j, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var again numaStatus
		if err := json.Unmarshal(j, &again); err != nil {
			t.Fatal(err)
		}
		b.Reset()
		again.print(&b)
		if b.String() != row.want {
			t.Errorf("%s, over the socket:\n%s, want\n%s", row.request, b.String(), row.want)
		}
	}
}

// What serves one node only is pinned to it, what serves all is not.
func TestNUMAPlacement(t *testing.T) {
	one, two := numaDaemon(t, "node=1", 2), numaDaemon(t, "auto", 2)
	if p := one.place(1); p.Name != "sl-n1-t01" || len(p.CPUs) != 2 || p.CPUs[0] != 2 {
		t.Errorf("%+v", p)
	}
	if p := two.place(0); p.Name != "sl-n0-t00" || len(p.CPUs) != 2 || p.CPUs[0] != 0 {
		t.Errorf("%+v", p)
	}
	if p := one.placeWaiting(5); p.Name != "sl-n1-w05" || len(p.CPUs) != 2 {
		t.Errorf("%+v", p)
	}
	if p := two.placeWaiting(5); p.Name != "sl-w05" || p.CPUs != nil {
		t.Errorf("%+v", p)
	}
	if c := one.pinned(ioctx.Config{}).RingCPUs(0); len(c) != 2 || c[0] != 2 {
		t.Errorf("workers on CPUs %v, want 2 and 3", c)
	}
	if c := two.pinnedRings(sendpath.Config{}); c.Lanes != 2 || c.RingCPUs(0)[0] != 0 || c.RingCPUs(1)[0] != 2 {
		t.Errorf("%d rings with workers on CPUs %v and %v", c.Lanes, c.RingCPUs(0), c.RingCPUs(1))
	}
	if c := numaDaemon(t, "off", 2).pinnedRings(sendpath.Config{}); c.Lanes != 1 || len(c.RingCPUs(0)) != 0 {
		t.Errorf("%d rings with workers on CPUs %v", c.Lanes, c.RingCPUs(0))
	}
	if c := two.pinned(ioctx.Config{}).RingCPUs(0); len(c) != 0 {
		t.Errorf("workers on CPUs %v, want any", c)
	}
}

// A placement that cannot be, as after a CPU has gone, leaves a thread that works.
func TestNUMAPinFails(t *testing.T) {
	d := numaDaemon(t, "off", 2)
	done := make(chan struct{})
	go func() {
		defer close(done)
		var before, after unix.CPUSet
		_ = unix.SchedGetaffinity(0, &before)
		p := d.placement(numa.Placement{CPUs: numa.List{4095}, Memory: 1023, Strict: true}, "t", 0)
		p.Enter(make([]byte, 1<<20))
		_ = unix.SchedGetaffinity(0, &after)
		if before != after {
			t.Errorf("the thread's CPUs changed from %v to %v", before, after)
		}
	}()
	<-done
}
