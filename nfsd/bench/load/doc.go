// Package load puts an NFSv3 server under load, for less CPU than any server
// needs to bear it: a thread drives many connections with one epoll, calls leave in
// batches and are bytes made beforehand, and the data of large replies is discarded
// in the kernel (MSG_TRUNC, tcp(7)) instead of being copied.
//
//	Run      connections, threads, time limits, what came of it
//	thread   one epoll loop
//	conn     a connection: calls out, replies in
//	replies  taking the byte stream apart into records and replies
//	Source   which call comes next: Reads in sequence or shuffled, Repeat
//
// A reply that is not what was asked for ends the run: there is no figure without
// it.
package load
