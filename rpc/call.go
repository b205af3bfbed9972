package rpc

import (
	"net/netip"

	"sluice/rpc/xdr"
)

// Call is one call on its way through a thread. It belongs to the thread that
// runs it; a handler must not keep it, nor anything that aliases its arguments.
type Call struct {
	Cred Cred
	Args xdr.Reader
	// Reply is the batch; a handler appends its results and changes nothing
	// before them.
	Reply []byte
	// Payload, if a handler sets it, follows the results; the server adds the
	// XDR padding. Never over UDP.
	Payload Payload
	// Peer is where the call came from, an IPv4 address unmapped.
	Peer netip.AddrPort
	// UDP says that the call came in a datagram.
	UDP bool
	// MayBlock says that this is a waiting thread.
	MayBlock bool
	// WaitClass, set along with Wait, names what the call waits for, such as a
	// device; calls of one class do not take every waiting thread.
	WaitClass uint64
	// Attempt counts how often the call has run before.
	Attempt int
	// Thread is what Config.NewThread made for this thread.
	Thread any
	// Conn is what Config.NewConn made for this connection; nil over UDP.
	Conn any
}

// Payload is reply data that bypasses the batch, such as a filled pipe.
type Payload interface {
	// Len is how many bytes are left to send.
	Len() int
	// SendTo sends to a non-blocking socket. more says that other bytes follow
	// at once. It returns EAGAIN when the socket is full, with n counting what
	// went before.
	SendTo(sock int, more bool) (n int, err error)
	// Release gives back what the payload holds, sent or not. It is called once.
	Release()
}

// callEnv is where a call runs: what a thread hands to every call.
type callEnv struct {
	table  *table
	counts counters
	call   Call
}

// run parses rec and runs the procedure, appending the complete reply without
// record mark to e.call.Reply. drop means that rec deserves no answer and the
// connection no trust.
func (e *callEnv) run(rec []byte) (res Result, drop bool) {
	c := &e.call
	h, rest, ok := parseHeader(rec)
	if !ok {
		return Done, len(rec) < minRecord
	}
	if h.rpcvers != rpcVersion {
		c.Reply = appendRPCMismatch(c.Reply, h.xid)
		return Done, false
	}
	c.Args = xdr.NewReader(rest)
	if stat := c.Cred.parse(&c.Args); stat != AuthOK {
		c.Reply = appendAuthError(c.Reply, h.xid, stat)
		return Done, false
	}
	if c.Args.Err() != nil {
		c.Reply = appendAccepted(c.Reply, h.xid, acceptGarbageArgs)
		return Done, false
	}
	var rt *route
	if rt, c.Reply = e.table.find(h, c.UDP, c.Reply); rt == nil {
		return Done, false
	}
	return e.handle(rt, h.xid), false
}

// handle runs one procedure and puts the reply's header before its results.
func (e *callEnv) handle(rt *route, xid uint32) Result {
	c := &e.call
	mark := len(c.Reply)
	c.Reply = appendAccepted(c.Reply, xid, acceptSuccess)
	res := rt.Handle(c)
	switch res {
	case Wait, Again:
		c.Reply = c.Reply[:mark]
		return res
	case GarbageArgs:
		c.Reply = appendAccepted(c.Reply[:mark], xid, acceptGarbageArgs)
	case SystemErr:
		c.Reply = appendAccepted(c.Reply[:mark], xid, acceptSystemErr)
	}
	e.counts.add(rt.index)
	return Done
}
