// Package protocol tests the running server over the wire, row by row of what
// RFC 1813, RFC 5531 and RFC 1833 demand and of what Linux's own server does
// where they leave a choice. The client is in the package wire and shares no
// code with the server.
//
// The tests build the program, start it on loopback and stop it. They run in
// mount and network namespaces of their own, which takes root; without root those
// that need mounts, owners or privileged ports are skipped and named at the end.
// SLUICE=FILE tests that program instead of a fresh build. SLUICE_SEND_PATH=PATH
// runs everything on that send path, but for tests that choose theirs.
package protocol
