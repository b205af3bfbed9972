package main

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"

	"sluice/ioctx"
	"sluice/ioctx/numa"
	"sluice/nfsd/sendpath"
	"sluice/rpc"
)

// The main goroutine keeps the process's first thread: it stands for the process in
// ps(1) and /proc/PID, and a goroutine that ends does not end it. So it is no thread
// to be pinned, and has the program's name even if that was executed by another.
func init() {
	runtime.LockOSThread()
	rpc.NameThread(filepath.Base(os.Args[0]))
}

// planNUMA decides on which nodes the server's threads run. An error is a request
// for what the machine does not have.
func (d *daemon) planNUMA() error {
	plan, err := d.chooseNodes()
	if err != nil {
		return fmt.Errorf("--numa %v: %w", d.cfg.numa, err)
	}
	d.plan = plan
	if n := plan.CPUs(); n > 0 && d.cfg.threadsByCPU {
		d.cfg.threads = max(2, n)
	}
	d.cfg.threads = max(d.cfg.threads, len(plan.Nodes)) // each node needs one
	nodes := "any"
	if len(plan.Nodes) > 0 {
		nodes = fmt.Sprint(plan.NodeList())
	}
	d.cfg.log.Info("numa", "mode", plan.Mode, "nodes", nodes, "reason", plan.Reason)
	for _, note := range plan.Notes {
		d.cfg.log.Warn("numa", "note", note)
	}
	return nil
}

func (d *daemon) chooseNodes() (*numa.Plan, error) {
	t, err := numa.Read(os.DirFS("/"))
	if err != nil {
		return &numa.Plan{Mode: d.cfg.numa.String(), Reason: "the machine's nodes cannot be read: " + err.Error()}, nil
	}
	addInterfaceAddrs(t)
	d.topology = t
	var listen []netip.Addr
	for _, a := range d.addrs {
		listen = append(listen, a.Addr())
	}
	return numa.Choose(d.cfg.numa, t, listen)
}

// addInterfaceAddrs adds what /sys does not have.
func addInterfaceAddrs(t *numa.Topology) {
	list, _ := net.Interfaces() // without a list no address belongs to an interface
	for _, i := range list {
		nets, _ := i.Addrs()
		var addrs []netip.Addr
		for _, n := range nets {
			if p, err := netip.ParsePrefix(n.String()); err == nil {
				addrs = append(addrs, p.Addr().Unmap())
			}
		}
		t.AddAddrs(i.Name, addrs)
	}
}

// place is rpc.Config.Place.
func (d *daemon) place(i int) rpc.Placement { return d.placement(d.plan.Place(i), "t", i) }

// placeWaiting is rpc.Config.PlaceWaiting.
func (d *daemon) placeWaiting(i int) rpc.Placement { return d.placement(d.plan.Shared(), "w", i) }

func (d *daemon) placement(at numa.Placement, role string, i int) rpc.Placement {
	return rpc.Placement{Name: at.ThreadName(role, i), CPUs: at.CPUs, Enter: func(buffers ...[]byte) {
		d.pin(at)
		for _, b := range buffers {
			if err := at.Bind(b); err != nil {
				d.cfg.log.Warn("memory not bound to its node", "node", at.Node, "error", err)
			}
		}
	}}
}

// pin pins the calling thread. One that cannot be, because a CPU has gone say,
// works all the same.
func (d *daemon) pin(at numa.Placement) {
	if err := at.Pin(); err != nil {
		d.cfg.log.Warn("thread not pinned", "node", at.Node, "cpus", at.CPUs.String(), "error", err)
	}
}

// pinned has the submitters of an I/O context, and their workers, run where the
// plan says. They read for all nodes.
func (d *daemon) pinned(c ioctx.Config) ioctx.Config {
	at := d.plan.Shared()
	c.OnThread = func(int) error {
		d.pin(at)
		return nil
	}
	c.RingCPUs = func(int) []int { return at.CPUs }
	return c
}

// pinnedRings gives the send path a ring on each node that the plan uses.
func (d *daemon) pinnedRings(c sendpath.Config) sendpath.Config {
	c.Lanes = max(1, len(d.plan.Nodes))
	c.OnThread = func(lane int) error {
		at := d.plan.Place(lane)
		rpc.NameThread(at.ThreadName("s", lane))
		d.pin(at)
		return nil
	}
	c.RingCPUs = func(lane int) []int { return d.plan.Place(lane).CPUs }
	return c
}

// sendLane is nfsd.Config.SendLane: the ring of the node that the calling thread is
// pinned to.
func (d *daemon) sendLane() int {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return 0 // more than 1024 CPUs
	}
	for i, at := range d.plan.Nodes {
		if set.IsSet(at.CPUs[0]) {
			return i
		}
	}
	return 0
}
