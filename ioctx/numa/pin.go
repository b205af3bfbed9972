package numa

import (
	"os"

	"golang.org/x/sys/unix"
)

// Pin keeps the calling thread, which must be locked to its goroutine and end
// with it, on the placement's CPUs, and the memory it will allocate on the node.
func (p Placement) Pin() error {
	if p.Anywhere() {
		return nil
	}
	cpus := unix.NewCPUSet(p.CPUs[len(p.CPUs)-1] + 1)
	for _, c := range p.CPUs {
		cpus.Set(c)
	}
	if err := unix.SchedSetaffinityDynamic(0, cpus); err != nil {
		return os.NewSyscallError("sched_setaffinity", err)
	}
	mode, nodes := p.policy()
	return os.NewSyscallError("set_mempolicy", unix.SetMemPolicy(mode, &nodes))
}

// policy is the memory policy of the placement (set_mempolicy(2)).
func (p Placement) policy() (mode int, nodes unix.CPUSet) {
	nodes.Set(p.Memory) // MAX_NUMNODES is at most 1024
	if p.Strict {
		return unix.MPOL_BIND, nodes
	}
	return unix.MPOL_PREFERRED, nodes
}
