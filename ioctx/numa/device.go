package numa

import (
	"fmt"
	"io/fs"
	"net/netip"
	"path"
	"strconv"
	"strings"
)

// Interface is a network interface.
type Interface struct {
	Name string
	// Nodes are those that its device is attached to: one; several for a bond of
	// such; none if that is not known.
	Nodes List
	// IRQCPUs are the CPUs that its interrupts go to; none if that is not known.
	IRQCPUs List
	// Addrs are its addresses. Read does not know them.
	Addrs []netip.Addr
}

const (
	netDir   = "sys/class/net"
	blockDir = "sys/class/block"
	// layersMax bounds the devices below a device: VLANs on bonds, say.
	layersMax = 8
)

func readInterfaces(root fs.FS) ([]Interface, error) {
	entries, err := fs.ReadDir(root, netDir)
	if err != nil {
		return nil, nil // no /sys: nothing is known
	}
	var list []Interface
	for _, e := range entries {
		i := Interface{Name: e.Name()}
		link := path.Join(netDir, i.Name)
		if _, ok := follow(root, link); !ok {
			continue // bonding_masters is a file
		}
		err := layers(root, link, "lower_", layersMax, func(dir string) error {
			node, err := nodeOf(root, dir)
			i.Nodes, i.IRQCPUs = i.Nodes.with(node), i.IRQCPUs.with(irqCPUs(root, dir))
			return err
		})
		if err != nil {
			return nil, err
		}
		list = append(list, i)
	}
	return list, nil
}

// BlockNodes returns the nodes that a block device, such as sda, is attached to:
// none if that is not known, several for an array of such.
func BlockNodes(root fs.FS, name string) (List, error) {
	var nodes List
	if !fs.ValidPath(name) {
		return nil, nil
	}
	err := layers(root, path.Join(blockDir, name), "slaves/", layersMax, func(dir string) error {
		node, err := nodeOf(root, dir)
		nodes = nodes.with(node)
		return err
	})
	return nodes, err
}

// layers calls f with the device directory that a link leads to or, if the
// device is made of others, with those of the ones at the bottom. Links to these
// begin with below: "lower_" for the interfaces below one
// (Documentation/ABI/testing/sysfs-class-net), "slaves/" for block devices.
func layers(root fs.FS, link, below string, depth int, f func(dir string) error) error {
	dir, ok := follow(root, link)
	if !ok || depth == 0 {
		return nil // gone meanwhile
	}
	pattern := path.Join(dir, below+"*")
	lower, err := fs.Glob(root, pattern)
	if err != nil {
		return err
	}
	if len(lower) == 0 {
		return f(dir)
	}
	for _, l := range lower {
		if err := layers(root, l, below, depth-1, f); err != nil {
			return err
		}
	}
	return nil
}

// follow resolves the link of a class directory, which leads to the device's
// place below /sys/devices. A directory is its own place.
func follow(root fs.FS, link string) (dir string, ok bool) {
	if target, err := fs.ReadLink(root, link); err == nil {
		return path.Join(path.Dir(link), target), true
	}
	info, err := fs.Stat(root, link)
	return link, err == nil && info.IsDir()
}

// attached returns the directory that has numa_node, of the device itself or of
// the nearest that it hangs on: its PCI function, as a rule.
func attached(root fs.FS, dir string) (string, bool) {
	for ; strings.HasPrefix(dir, "sys/devices/"); dir = path.Dir(dir) {
		if _, err := fs.Stat(root, path.Join(dir, "numa_node")); err == nil {
			return dir, true
		}
	}
	return "", false
}

// nodeOf returns the node of a device, empty if it is not known.
func nodeOf(root fs.FS, dir string) (List, error) {
	dir, ok := attached(root, dir)
	if !ok {
		return nil, nil
	}
	s, err := readLine(root, path.Join(dir, "numa_node"))
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(s)
	switch {
	case err != nil || n >= maxNumber:
		return nil, fmt.Errorf("/%s/numa_node: %q is not a node", dir, s)
	case n < 0:
		return nil, nil
	}
	return List{n}, nil
}

// irqCPUs returns the CPUs that the interrupts of a device go to. effective_affinity_list
// is there since Linux 4.13, and empty for an interrupt that is not in use.
func irqCPUs(root fs.FS, dir string) (cpus List) {
	dir, ok := attached(root, dir)
	if !ok {
		return nil
	}
	irqs, err := fs.ReadDir(root, path.Join(dir, "msi_irqs"))
	if err != nil {
		return nil
	}
	for _, irq := range irqs {
		if l, err := readList(root, path.Join("proc/irq", irq.Name(), "effective_affinity_list")); err == nil {
			cpus = cpus.with(l)
		}
	}
	return cpus
}
