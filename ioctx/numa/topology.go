package numa

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Node is a NUMA node.
type Node struct {
	ID   int
	CPUs List // online
	// Memory says whether it has any.
	Memory bool
	// Distances to the nodes by their numbers, 10 to itself.
	Distances map[int]int
}

// Topology is what the kernel says about the machine and this process.
type Topology struct {
	Nodes []Node // by number, at least one
	// CPUs and Mems are the CPUs and the nodes' memory that this process may use,
	// by its affinity and cpuset.
	CPUs, Mems List
	Interfaces []Interface // by name
}

const nodeDir = "sys/devices/system/node"

// Read reads the topology from a file system whose root is the machine's. What
// is missing means one node; an error is a file that cannot be understood.
func Read(root fs.FS) (*Topology, error) {
	t := new(Topology)
	status, err := readStatus(root)
	if err != nil {
		return nil, err
	}
	online, err := readList(root, "sys/devices/system/cpu/online")
	if errors.Is(err, fs.ErrNotExist) {
		online, err = status.cpus, nil
	}
	if err != nil {
		return nil, err
	}
	if t.Nodes, err = readNodes(root, online); err != nil {
		return nil, err
	}
	t.CPUs, t.Mems = status.cpus, status.mems
	if t.Mems == nil { // CONFIG_CPUSETS is off
		for _, n := range t.Nodes {
			t.Mems = append(t.Mems, n.ID)
		}
	}
	t.Interfaces, err = readInterfaces(root)
	return t, err
}

func readNodes(root fs.FS, online List) ([]Node, error) {
	ids, err := readList(root, path.Join(nodeDir, "online"))
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(ids) == 0 { // CONFIG_NUMA is off, or no /sys
		return []Node{{CPUs: online, Memory: true, Distances: map[int]int{0: 10}}}, nil
	}
	if err != nil {
		return nil, err
	}
	withMemory, err := readList(root, path.Join(nodeDir, "has_memory"))
	if err != nil {
		return nil, err
	}
	var nodes []Node
	for _, id := range ids {
		dir := path.Join(nodeDir, "node"+strconv.Itoa(id))
		cpus, err := readList(root, path.Join(dir, "cpulist"))
		if err != nil {
			return nil, err
		}
		n := Node{ID: id, CPUs: cpus.And(online), Memory: withMemory.Contains(id)}
		if n.Distances, err = readDistances(root, path.Join(dir, "distance"), ids); err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// readDistances reads one figure for each node in ids.
func readDistances(root fs.FS, name string, ids List) (map[int]int, error) {
	s, err := readLine(root, name)
	if err != nil {
		return nil, err
	}
	fields := strings.Fields(s)
	if len(fields) != len(ids) {
		return nil, fmt.Errorf("/%s: %d distances for %d nodes", name, len(fields), len(ids))
	}
	d := make(map[int]int)
	for i, f := range fields {
		if d[ids[i]], err = parseNumber(f); err != nil {
			return nil, fmt.Errorf("/%s: %q is not a distance", name, f)
		}
	}
	return d, nil
}

// processStatus is what the calling thread's status says about CPUs and memory
// (proc(5)). /proc/self would be the process's first thread, which may be pinned.
type processStatus struct{ cpus, mems List }

func readStatus(root fs.FS) (processStatus, error) {
	const name = "proc/thread-self/status"
	b, err := fs.ReadFile(root, name)
	if err != nil {
		return processStatus{}, err
	}
	var s processStatus
	for line := range strings.Lines(string(b)) {
		key, value, _ := strings.Cut(line, ":")
		var err error
		switch key {
		case "Cpus_allowed_list":
			s.cpus, err = ParseList(value)
		case "Mems_allowed_list":
			s.mems, err = ParseList(value)
		}
		if err != nil {
			return s, fmt.Errorf("/%s: %s: %w", name, key, err)
		}
	}
	return s, nil
}

// AddAddrs adds addresses of an interface.
func (t *Topology) AddAddrs(name string, addrs []netip.Addr) {
	i := t.netdev(name)
	if i == nil {
		t.Interfaces = append(t.Interfaces, Interface{Name: name})
		i = &t.Interfaces[len(t.Interfaces)-1]
	}
	i.Addrs = append(i.Addrs, addrs...)
}

// node returns the node with a number, or nil.
func (t *Topology) node(id int) *Node {
	i := slices.IndexFunc(t.Nodes, func(n Node) bool { return n.ID == id })
	if i < 0 {
		return nil
	}
	return &t.Nodes[i]
}

// nearest returns the node that is ok and has the smallest distance from id; of
// several, the one with the lowest number. Nil if there is none.
func (t *Topology) nearest(id int, ok func(*Node) bool) *Node {
	var best *Node
	from := t.node(id)
	for i := range t.Nodes {
		n := &t.Nodes[i]
		if from == nil || !ok(n) {
			continue
		}
		if best == nil || from.Distances[n.ID] < from.Distances[best.ID] {
			best = n
		}
	}
	return best
}

func (n *Node) hasCPUs() bool { return len(n.CPUs) > 0 }

// withCPUs lists the nodes on which threads can run.
func (t *Topology) withCPUs() List {
	var l List
	for _, n := range t.Nodes {
		if n.hasCPUs() {
			l = append(l, n.ID)
		}
	}
	return l
}

// nodesOf lists the nodes that CPUs are on.
func (t *Topology) nodesOf(cpus List) List {
	var l List
	for _, n := range t.Nodes {
		if len(n.CPUs.And(cpus)) > 0 {
			l = append(l, n.ID)
		}
	}
	return l
}

func readLine(root fs.FS, name string) (string, error) {
	b, err := fs.ReadFile(root, name)
	return strings.TrimSpace(string(b)), err
}

func readList(root fs.FS, name string) (List, error) {
	s, err := readLine(root, name)
	if err != nil {
		return nil, err
	}
	l, err := ParseList(s)
	if err != nil {
		return nil, fmt.Errorf("/%s: %w", name, err)
	}
	return l, nil
}
