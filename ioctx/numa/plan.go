package numa

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Plan says on which nodes a server's threads run, and why.
type Plan struct {
	Mode   string `json:"mode"` // what was asked for
	Reason string `json:"reason"`
	// Nodes have a pool of threads each. None: threads run anywhere.
	Nodes []Placement `json:"nodes,omitempty"`
	// Notes are what the operator might want to put right.
	Notes []string `json:"notes,omitempty"`
}

// Placement is a node for a thread. The zero value is anywhere.
type Placement struct {
	Node int  `json:"node"`
	CPUs List `json:"cpus"`
	// Memory is the node to allocate from: Node, or the nearest that has memory.
	Memory int `json:"memory_node"`
	// Strict forbids memory of other nodes, as numactl --membind does. Otherwise
	// it is taken when Memory has none left: the page cache counts as well, and
	// should not be held to half of a machine that nobody asked to divide.
	Strict bool `json:"memory_strict"`
}

// Anywhere says that the placement binds nothing.
func (p Placement) Anywhere() bool { return len(p.CPUs) == 0 }

// ThreadName names the thread number i of a role, t for server threads, say.
func (p Placement) ThreadName(role string, i int) string {
	if p.Anywhere() {
		return fmt.Sprintf("sl-%s%02d", role, i)
	}
	return fmt.Sprintf("sl-n%d-%s%02d", p.Node, role, i)
}

// Place returns the placement of server thread i.
func (p *Plan) Place(i int) Placement {
	if len(p.Nodes) == 0 {
		return Placement{}
	}
	return p.Nodes[i%len(p.Nodes)]
}

// Shared returns the placement of what serves all nodes: the node if there is but
// one, otherwise anywhere.
func (p *Plan) Shared() Placement {
	if len(p.Nodes) == 1 {
		return p.Nodes[0]
	}
	return Placement{}
}

// NodeList returns the numbers of the nodes.
func (p *Plan) NodeList() List {
	var l List
	for _, pl := range p.Nodes {
		l = l.with(List{pl.Node})
	}
	return l
}

// CPUs returns how many CPUs the plan uses, 0 for any.
func (p *Plan) CPUs() int {
	n := 0
	for _, pl := range p.Nodes {
		n += len(pl.CPUs)
	}
	return n
}

// Choose makes the plan for a server that listens on some addresses. An error is
// a request for what the machine does not have.
func Choose(r Request, t *Topology, listen []netip.Addr) (*Plan, error) {
	p := &Plan{Mode: r.String()}
	if err := t.check(r); err != nil {
		return nil, err
	}
	switch nodes := t.withCPUs(); {
	case r.kind == off:
		p.Reason = "as asked"
	case len(nodes) < 2:
		p.Reason = "the machine has one node"
	case len(t.nodesOf(t.CPUs)) < 2 && r.kind == auto:
		p.Reason = fmt.Sprintf("nothing to choose: this process may use CPUs %v only, all on one node", t.CPUs)
	case r.kind == onNode:
		p.use(t, List{r.node}, "as asked", true)
	case r.kind == onNetdev:
		p.useInterfaces(t, []*Interface{t.netdev(r.dev)}, true)
	default:
		p.useInterfaces(t, t.listening(listen), false)
	}
	return p, nil
}

// check says what is wrong with a request, and lists what would be right.
func (t *Topology) check(r Request) error {
	nodes := t.withCPUs()
	switch {
	case r.kind == onNode && t.node(r.node) == nil:
		return fmt.Errorf("there is no node %d; nodes with CPUs: %v", r.node, nodes)
	case r.kind == onNode && !nodes.Contains(r.node):
		return fmt.Errorf("node %d has no CPUs; nodes with CPUs: %v", r.node, nodes)
	case r.kind == onNetdev && t.netdev(r.dev) == nil:
		var names []string
		for _, i := range t.Interfaces {
			names = append(names, i.Name)
		}
		return fmt.Errorf("there is no network interface %q; interfaces: %s", r.dev, strings.Join(names, " "))
	}
	return nil
}

func (t *Topology) netdev(name string) *Interface {
	for i := range t.Interfaces {
		if t.Interfaces[i].Name == name {
			return &t.Interfaces[i]
		}
	}
	return nil
}

// listening returns the interfaces that addresses belong to; the unspecified
// address belongs to all that have one.
func (t *Topology) listening(addrs []netip.Addr) []*Interface {
	var found []*Interface
	for i := range t.Interfaces {
		itf := &t.Interfaces[i]
		if slices.ContainsFunc(addrs, func(a netip.Addr) bool {
			return slices.Contains(itf.Addrs, a.Unmap().WithZone("")) || a.IsUnspecified() && len(itf.Addrs) > 0
		}) {
			found = append(found, itf)
		}
	}
	return found
}

// useInterfaces chooses the nodes of interfaces. strict is for an interface that
// was asked for: then no other nodes will do.
func (p *Plan) useInterfaces(t *Topology, list []*Interface, strict bool) {
	var nodes List
	var names, known []string
	for _, i := range list {
		names = append(names, i.Name)
		if len(i.Nodes) > 0 {
			nodes = nodes.with(i.Nodes)
			known = append(known, fmt.Sprintf("%s is on node %v", i.Name, i.Nodes))
		}
	}
	reason := strings.Join(known, ", ")
	switch {
	case len(nodes) == 0 && strict:
		p.Reason = "the node of " + strings.Join(names, " ") + " is not known"
		return
	case len(nodes) == 0:
		reason = "no interface that is listened on has a known node"
	}
	if len(nodes) != 1 && !strict {
		nodes = t.nodesOf(t.CPUs)
	}
	p.use(t, nodes, reason, strict)
	p.noteInterrupts(t, list)
}

// use makes placements, or says why the process may not run there.
func (p *Plan) use(t *Topology, nodes List, reason string, strict bool) {
	p.Reason = reason
	for _, id := range nodes {
		near := t.nearest(id, (*Node).hasCPUs)
		if near == nil || slices.ContainsFunc(p.Nodes, func(pl Placement) bool { return pl.Node == near.ID }) {
			continue
		}
		if near.ID != id {
			p.Reason += fmt.Sprintf("; node %d has no CPUs, node %d is the nearest", id, near.ID)
		}
		pl := Placement{Node: near.ID, CPUs: near.CPUs.And(t.CPUs), Strict: strict}
		mem := t.nearest(near.ID, func(n *Node) bool { return n.Memory && t.Mems.Contains(n.ID) })
		if len(pl.CPUs) == 0 || mem == nil || strict && near.Memory && mem.ID != near.ID {
			p.Nodes = nil
			p.Reason = fmt.Sprintf("%s, but this process may use CPUs %v and memory of nodes %v only", reason, t.CPUs, t.Mems)
			return
		}
		pl.Memory = mem.ID
		p.Nodes = append(p.Nodes, pl)
	}
}

// noteInterrupts tells of interfaces whose packets arrive where no thread is.
func (p *Plan) noteInterrupts(t *Topology, list []*Interface) {
	used := p.NodeList()
	for _, i := range list {
		if at := t.nodesOf(i.IRQCPUs); len(used) > 0 && len(at) > 0 && len(at.And(used)) == 0 {
			p.Notes = append(p.Notes, fmt.Sprintf("interrupts of %s go to CPUs %v on node %v; set /proc/irq/*/smp_affinity_list", i.Name, i.IRQCPUs, at))
		}
	}
}
