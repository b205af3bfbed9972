// Package wire is a client of ONC RPC, MOUNT, the portmapper and NFSv3 for
// tests. It is written from RFC 5531, RFC 1813, RFC 1094 and RFC 1833 and shares
// no code with the server, so that a mistake in the server's codec cannot cancel
// itself out. It decodes strictly and lets its caller send anything.
package wire
