// Package peers tests the server against programs that others wrote: the
// Linux kernel's NFS client (in a User Mode Linux guest), libnfs's tools,
// showmount, rpcinfo and mount.nfs, a Go client, Wireshark's dissector, and
// NFS-Ganesha as a second opinion on every procedure.
//
// The tests need root and the packages that "tests/setup.sh test" installs;
// what is missing is skipped and named at the end. Everything runs in network
// namespaces of the tests' own. SLUICE=FILE tests that program instead of a
// fresh build.
package peers
