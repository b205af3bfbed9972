// Package guest runs shell scripts on a real Linux NFS client without
// touching the machine it runs on.
//
// A [Namespace] is a fresh network and mount namespace. Servers under test
// run in it, so they may take any port and write to /run without colliding
// with the host or with another test. A [Guest] adds a tap device and boots
// User Mode Linux on its other end: a Linux kernel that is an ordinary
// process. The guest's root is the host's file system, seen through hostfs,
// so a script finds every host program and every host file at its usual path
// and can compare what it mounts with the original, byte by byte.
//
// Everything dies with the process that made it: the namespaces go with
// their last process, and every process is killed with its parent.
package guest
