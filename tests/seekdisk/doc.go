// Package seekdisk is a rotational disk to test with: a block device whose data
// comes at the pace of one disk head, with counters of what the head had to do,
// and which stalls or fails on demand.
//
// The head is a model (head.go): a transfer takes its length at the platter's
// rate, and a request that does not begin where the last one ended costs a seek.
// A drive (drive.go) serves a queue of requests with it in real time. A file on
// FUSE (fuse.go) is how the kernel gets at the drive, a loop device with direct
// I/O makes a block device of the file, with a real queue and I/O scheduler, and
// an ext4 on that is what files are served from:
//
//	file on ext4  →  I/O scheduler  →  loop device  →  FUSE  →  drive
//
// The store (store.go) keeps pages of package pattern in 16 bytes, and zeros in
// none, so that gigabytes of checkable files cost little memory. Writing takes no
// time: these disks are filled once and then read.
//
// The drive and its FUSE server are a process of their own (process.go says
// why).
//
// All of it takes root. A Disk is seen in the mount namespace of the thread that
// started it; tests use one of their own, so that nothing stays behind when they
// are killed.
package seekdisk
