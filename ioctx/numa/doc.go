// Package numa knows the machine's NUMA nodes and keeps threads, and the memory
// they allocate, on those that a server should use.
//
// Read takes the topology from the files below /sys and /proc, Choose turns it
// and what the operator asked for into a Plan, and the Plan's Placements pin
// threads.
//
// Kernel facts relied on:
//   - /sys/devices/system/node (Documentation/ABI/stable/sysfs-devices-node):
//     cpulist has the online CPUs of a node, distance one figure for each online
//     node in the order of their numbers, 10 for the node itself. Node numbers
//     may have gaps. A node may have no memory, or no CPUs.
//   - numa_node (Documentation/ABI/testing/sysfs-bus-pci) belongs to the PCI
//     function, of which the network or block device is a descendant; -1 means
//     that the firmware does not say.
//   - Affinity and memory policy belong to a thread, and a new thread inherits
//     both from the one that makes it (sched_setaffinity(2), set_mempolicy(2)).
//     Go's runtime never makes a thread from one that is locked to its goroutine:
//     a template thread, made before the first lock, does (runtime, newm). So
//     threads are locked first, pinned then, and end with their goroutine.
//   - A thread's memory policy holds for what the kernel allocates in its name
//     too: pages of pipes and of the page cache, socket buffers
//     (Documentation/admin-guide/mm/numa_memory_policy.rst). io-wq workers inherit
//     it from the submitting thread, but not the affinity: they need
//     IORING_REGISTER_IOWQ_AFF (io-wq.c, io_wq_create).
package numa
