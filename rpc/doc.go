// Package rpc is a server for ONC RPC version 2 (RFC 5531) over TCP, and over
// UDP for programs that ask for it.
//
// A tour in the order that a call takes:
//
//	server.go   start, drain; listen.go takes connections
//	thread.go   server threads: wait for ready connections, visit them
//	conn.go     a visit: receive all that is there, walk the records in place
//	record.go   record marking (RFC 5531 section 11)
//	message.go  call and reply headers, every rejection
//	auth.go     AUTH_NONE and AUTH_SYS
//	program.go  the table of programs, versions and procedures
//	call.go     one call on its way: arguments, reply, payload
//	output.go   the batch of replies, and what a full socket leaves parked
//	waiters.go  calls that have to wait for something other than the network
//
// Around it: poll.go (epoll, connections by slot), balance.go (which thread a
// connection is at home on), udp.go, portmap.go (answering as a portmapper),
// rpcbind.go and client.go (registering with a real one), peers.go (what one peer
// may take), limits.go.
//
// A server thread never waits for anything but the network. A handler that
// would have to wait (for a disk, for a name server) returns [Wait]; the call
// is then copied and run again on a waiting thread, with Call.MayBlock set.
package rpc
