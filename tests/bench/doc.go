// Command bench makes the whole report: Sluice by send path, NFS-Ganesha, go-nfs
// and the bare servers of this directory over loopback; the Linux kernel's client
// reading from Sluice and from NFS-Ganesha, in a User Mode Linux guest; and, if
// asked for, the kernel's own server beside Sluice in an emulated machine.
//
// make bench builds what it needs and runs it. What cannot be had here is reported
// as missing.
package main
