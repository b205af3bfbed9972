// Package disk tests how the running server reads from disks: cold, in and out of
// order, beside changes to the files, from disks that fail or hang, and from file
// systems that are not disks. It asserts what arrives, not how fast; the command
// in bench measures that.
//
// The disks are this machine's own and a modelled one (package seekdisk), whose
// counters say from the outside what was read. Every test runs twice: with
// io_uring, and in a server that is denied it.
//
// It takes root, for mounts and namespaces. SLUICE=FILE tests that program instead
// of a fresh build.
package disk
