// Package client is what a benchmark needs of an NFSv3 client before any load:
// finding a server's ports, mounting, looking a path up, and the calls themselves
// as bytes that a load generator patches and sends.
//
// It speaks to any server: ONC RPC (RFC 5531) over TCP with AUTH_SYS, the
// portmapper (RFC 1833), MOUNT and NFS version 3 (RFC 1813). Nothing that a server
// sends makes it take more than MaxReply bytes of memory for a call.
package client
