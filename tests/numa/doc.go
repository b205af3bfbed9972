// Package numa tests where threads and their memory are, on a machine with two
// NUMA nodes: a guest under emulation with Debian's kernel, four CPUs, a network
// card on node 1 and a disk on node 0. Package agent is the guest's first process;
// it runs the server in each Scenario, reads files through it, and sends back what
// the kernel says of the server's threads, a Report each. The tests judge them.
package numa
