package numa

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// The kernel's list format (cpuset(7), "Formats"), both ways.
func TestList(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "\n": "", "0": "0", "0-4,9": "0-4,9", "0-2,7,12-14\n": "0-2,7,12-14", "3,1,2": "1-3", "1-3,2-5": "1-5",
		"0,2,4": "0,2,4", "0-127": "0-127", "8191": "8191",
	} {
		l, err := ParseList(in)
		if err != nil || l.String() != want {
			t.Errorf("%q: %v, %v; want %s", in, l, err, want)
		}
	}
	for _, bad := range []string{"a", "-", "-1", "1-", "3-1", "0,", ",0", "0--1", "0x1", "1 2", "0-99999999", "65536", "4294967296"} {
		if l, err := ParseList(bad); err == nil {
			t.Errorf("%q is taken for %v", bad, l)
		}
	}
}

func FuzzParseList(f *testing.F) {
	f.Add("0-3,8")
	f.Fuzz(func(t *testing.T, s string) {
		l, err := ParseList(s)
		if err != nil {
			return
		}
		again, err := ParseList(l.String())
		if err != nil || !slices.Equal(l, again) || !slices.IsSorted(l) {
			t.Errorf("%q: %v, then %v, %v", s, l, again, err)
		}
	})
}

// What numactl --hardware would say of each machine: CPUs by node, whether the
// node has memory, and distances.
func TestReadNodes(t *testing.T) {
	for name, want := range map[string]string{
		"one-node":           "0:0-1:true:[10]",
		"two-nodes":          "0:0-7,16-23:true:[10 21] 1:8-15,24-31:true:[21 10]",
		"four-nodes-offline": "0:0-3:true:[10 21 31 21] 1:4,6-7:true:[21 10 21 31] 2:8-11:true:[31 21 10 21] 3:14-15:true:[21 31 21 10]",
		"sixty-four": "0:0-7,32-39:true:[10 16 16 16] 1:8-15,40-47:true:[16 10 16 16] " +
			"2:16-23,48-55:true:[16 16 10 16] 3:24-31,56-63:true:[16 16 16 10]",
		"cxl": "0:0-3:true:[10 21 14] 1:4-7:true:[21 10 24] 2::true:[14 24 10]",
		"power9": "0:0-63:true:[10 40 80 80 80 80] 8:64-127:true:[40 10 80 80 80 80] 252::true:[80 80 10 80 80 80] " +
			"253::true:[80 80 80 10 80 80] 254::true:[80 80 80 80 10 80] 255::true:[80 80 80 80 80 10]",
		"memoryless": "0:0-3:true:[10 20] 1:4-7:false:[20 10]",
		"no-numa":    "0:0-3:true:[10]",
		"no-sys":     "0:2-3:true:[10]",
	} {
		topo := readFixture(t, name)
		var got []string
		for _, n := range topo.Nodes {
			var d []int
			for _, to := range topo.Nodes {
				d = append(d, n.Distances[to.ID])
			}
			got = append(got, fmt.Sprintf("%d:%v:%v:%v", n.ID, n.CPUs, n.Memory, d))
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%s:\n%s, want\n%s", name, s, want)
		}
	}
}

// The node of an interface is that of the device below it, through VLANs and
// bonds; a file beside the interfaces is none.
func TestReadInterfaces(t *testing.T) {
	for name, want := range map[string]string{
		"one-node":   "eth0:[]:1 lo:[]:",
		"two-nodes":  "docker0:[]: eno1:[]: ens1f0:[1]:8,24 lo:[]:",
		"bond-vlan":  "bond0:[1]: bond0.100:[1]: bond1:[0-1]: eth0:[0]: eth1:[1]: eth2:[1]: eth3:[1]:",
		"sixty-four": "enp97s0:[3]:0",
		"power9":     "enP48p1s0f0:[8]:",
		"no-numa":    "lo:[]:",
		"no-sys":     "",
	} {
		var got []string
		for _, i := range readFixture(t, name).Interfaces {
			got = append(got, fmt.Sprintf("%s:[%v]:%v", i.Name, i.Nodes, i.IRQCPUs))
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%s: %s, want %s", name, s, want)
		}
	}
}

// A disk has the node of its controller, a partition that of its disk, an array
// those of its members.
func TestBlockNodes(t *testing.T) {
	root := fixture(t, "two-nodes")
	for name, want := range map[string]string{"nvme0n1": "0", "nvme0n1p1": "0", "md0": "0-1", "sdz": "", "8:0": "", "": "", "../x": ""} {
		if got, err := BlockNodes(root, name); err != nil || got.String() != want {
			t.Errorf("%s: %v, %v; want %s", name, got, err, want)
		}
	}
}

// A file that makes no sense is named, never guessed at.
func TestReadErrors(t *testing.T) {
	for file, content := range map[string]string{
		"sys/devices/system/node/online":                             "0-",
		"sys/devices/system/node/has_memory":                         "all",
		"sys/devices/system/node/node1/cpulist":                      "8-x",
		"sys/devices/system/node/node1/distance":                     "21",
		"sys/devices/system/node/node0/distance":                     "10 far",
		"sys/devices/system/cpu/online":                              "32-31",
		"sys/devices/pci0000:80/0000:80:02.0/0000:81:00.0/numa_node": "one",
		"proc/thread-self/status":                                    "Mems_allowed_list:\t0-1-2\n",
	} {
		root := fixture(t, "two-nodes")
		if root[file] == nil {
			t.Fatalf("the fixture has no %s", file)
		}
		root[file].Data = []byte(content)
		if _, err := Read(root); err == nil || !strings.Contains(err.Error(), "/"+file) {
			t.Errorf("%s with %q: %v", file, content, err)
		}
	}
}

// This machine's own files, against what the Go runtime knows about it.
func TestReadThisMachine(t *testing.T) {
	topo, err := Read(os.DirFS("/"))
	if err != nil {
		t.Fatal(err)
	}
	if len(topo.CPUs) != runtime.NumCPU() {
		t.Errorf("%v are %d CPUs, the runtime has %d", topo.CPUs, len(topo.CPUs), runtime.NumCPU())
	}
	var all List
	for _, n := range topo.Nodes {
		all = all.with(n.CPUs)
	}
	if got := all.And(topo.CPUs); !slices.Equal(got, topo.CPUs) {
		t.Errorf("the nodes have CPUs %v, this process runs on %v", all, topo.CPUs)
	}
	if topo.netdev("lo") == nil {
		t.Errorf("no lo among %v", topo.Interfaces)
	}
}
