package rpc

import "time"

// What a peer may make the server hold. Everything is checked before memory is
// allocated for it.
const (
	// maxAuthBody is the longest opaque_auth body in bytes (RFC 5531 section 8.2).
	maxAuthBody = 400
	// MaxGroups is the most supplementary groups an AUTH_SYS credential carries
	// (RFC 5531 appendix A).
	MaxGroups = 16
	// maxMachineName is the longest AUTH_SYS machine name in bytes (RFC 5531 appendix A).
	maxMachineName = 255
	// minRecord is the shortest call: xid, message type, RPC version, program,
	// version, procedure. Linux drops the connection below this.
	minRecord = 24
	// MaxRecord is the longest call in bytes. The longest legal one for a
	// read-only NFS server is a WRITE of the wtmax that FSINFO reports (64 KiB)
	// with its headers.
	MaxRecord = 64<<10 + 4<<10
	// maxFragments bounds the fragments of one record, so that a peer cannot
	// keep a thread busy with empty ones.
	maxFragments = 4096
	// recvBuffer is a thread's receive buffer in bytes. It must hold any record
	// with its mark.
	recvBuffer = 128 << 10
	// outBuffer is a thread's reply batch in bytes; flushAt is when it leaves
	// although calls remain: 64 KiB reads of which eight leave together cost a
	// quarter less CPU than two at a time.
	outBuffer = flushAt + 192<<10
	flushAt   = 512 << 10
	// maxParked is how many bytes of replies a connection may park before the
	// server stops taking calls from it; a payload is mostly the last thing that it
	// parks (parked.full).
	// One reply beyond it is possible: the one that crossed the line.
	maxParked = 256 << 10
	// compactBytes and compactSegments are how much that has left a connection's
	// parked output keeps before it is cleared out.
	compactBytes    = 64 << 10
	compactSegments = 1024
	// maxWaiting is how many calls of a connection may wait for a disk at once
	// before the server stops taking calls from it.
	maxWaiting = 64
	// visitBytes and visitCalls bound one visit to a connection, so that its
	// neighbours get their turn.
	visitBytes = 2 << 20
	visitCalls = 256
	// maxWaiters is how many waiting threads there may be, waitersPerClass how
	// many of them one class of calls may hold, and waiterIdle how long one
	// without work stays.
	maxWaiters      = 512
	waitersPerClass = 32
	waiterIdle      = 10 * time.Second
	// lingerTime is how long peers that have all their replies get to close, when
	// the server stops.
	lingerTime = 500 * time.Millisecond
	// defaultPeerTimeout is how long peers get to finish a call, or to take a part
	// of their replies.
	defaultPeerTimeout = 2 * time.Minute
	// acceptPause is how long no connections are taken when descriptors are out.
	acceptPause = 50 * time.Millisecond
	// acceptBatch is how many connections a thread takes from a listener before
	// it looks at others again.
	acceptBatch = 16
	// maxDatagram is the longest UDP call and reply in bytes.
	maxDatagram = 8 << 10
	// maxDatagramCalls is how many calls of one UDP socket may be under way;
	// further ones are dropped.
	maxDatagramCalls = 256
)
