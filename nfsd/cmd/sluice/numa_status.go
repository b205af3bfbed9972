package main

import (
	"fmt"
	"io"
	"os"

	"sluice/ioctx"
	"sluice/ioctx/numa"
)

// numaStatus is what `sluice status` shows of nodes.
type numaStatus struct {
	numa.Plan
	Machine    []machineNode `json:"machine"`
	Interfaces []numaDevice  `json:"interfaces"`
	Disks      []numaDevice  `json:"disks"` // that were read from
	Threads    []numaThread  `json:"threads"`
}

// machineNode is a node of the machine, whether it is used or not.
type machineNode struct {
	Node      int         `json:"node"`
	CPUs      numa.List   `json:"cpus"`
	Memory    bool        `json:"memory"`
	Distances map[int]int `json:"distances"`
}

// numaDevice is a device with its nodes, empty if they are not known.
type numaDevice struct {
	Name  string    `json:"name"`
	Nodes numa.List `json:"nodes"`
	// InterruptCPUs are where an interface's interrupts went when the server
	// started.
	InterruptCPUs numa.List `json:"interrupt_cpus,omitempty"`
}

// numaThread is a server thread with the CPUs it is to stay on.
type numaThread struct {
	Name string    `json:"name"`
	Node int       `json:"node"`
	CPUs numa.List `json:"cpus"`
}

func (d *daemon) numaStatus(devices []ioctx.DeviceStats) numaStatus {
	s := numaStatus{Plan: *d.plan, Disks: []numaDevice{}, Threads: []numaThread{}}
	if t := d.topology; t != nil {
		for _, n := range t.Nodes {
			s.Machine = append(s.Machine, machineNode{n.ID, n.CPUs, n.Memory, n.Distances})
		}
		for _, i := range t.Interfaces {
			s.Interfaces = append(s.Interfaces, numaDevice{i.Name, i.Nodes, i.IRQCPUs})
		}
	}
	for _, dev := range devices {
		nodes, _ := numa.BlockNodes(os.DirFS("/"), dev.Name) // not known is not known
		s.Disks = append(s.Disks, numaDevice{Name: dev.Name, Nodes: nodes})
	}
	for i := range d.cfg.threads {
		if at := d.plan.Place(i); !at.Anywhere() {
			s.Threads = append(s.Threads, numaThread{at.ThreadName("t", i), at.Node, at.CPUs})
		}
	}
	return s
}

func (s *numaStatus) print(w io.Writer) {
	where := "threads run anywhere"
	if len(s.Nodes) > 0 {
		where = "node " + s.NodeList().String()
	}
	fmt.Fprintf(w, "numa         %s: %s; %s\n", s.Mode, where, s.Reason)
	for _, at := range s.Nodes {
		memory := "first"
		if at.Strict {
			memory = "only"
		}
		fmt.Fprintf(w, "  node %-5d CPUs %v, memory of node %d %s:", at.Node, at.CPUs, at.Memory, memory)
		for _, t := range s.Threads {
			if t.Node == at.Node {
				fmt.Fprintf(w, " %s", t.Name)
			}
		}
		fmt.Fprintln(w)
	}
	if len(s.Machine) < 2 {
		return
	}
	for _, dev := range append(s.Interfaces, s.Disks...) {
		if len(dev.Nodes) > 0 {
			fmt.Fprintf(w, "  %-10s node %v", dev.Name, dev.Nodes)
			if len(dev.InterruptCPUs) > 0 {
				fmt.Fprintf(w, ", interrupts on CPUs %v", dev.InterruptCPUs)
			}
			fmt.Fprintln(w)
		}
	}
}
