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
	// GaveUp says that the call was resumed because what it was parked for does
	// not come.
	GaveUp bool
	// Thread is what Config.NewThread made for this thread.
	Thread any
	// Conn is what Config.NewConn made for this connection; nil over UDP.
	Conn any

	conn *Conn  // on server threads
	rec  []byte // the call as it came
}

// ParkedCall is a call that waits and needs no thread for it.
type ParkedCall waitingCall

// Park keeps a copy of the call until somebody calls Resume, once, on whatever
// thread; the handler returns [Parked]. Only server threads park calls.
func (c *Call) Park() *ParkedCall {
	c.conn.waiting++
	w := newWaitingCall(c.conn, c.rec)
	w.peer, w.local = c.Peer, c.Conn
	w.class, w.attempt, w.again = c.WaitClass, c.Attempt+1, true
	return (*ParkedCall)(w)
}

// Resume has the call run again. gaveUp says that it should not wait for the
// same thing once more. It waits for nothing itself.
func (p *ParkedCall) Resume(gaveUp bool) {
	w := (*waitingCall)(p)
	w.gaveUp = gaveUp
	w.to.complete(w)
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

// BackgroundPayload is a payload that can leave without the thread.
type BackgroundPayload interface {
	Payload
	// Pad has n zero bytes follow the data; Len counts them from then on.
	Pad(n int)
	// Room says whether other payloads may be made while this one leaves.
	Room() bool
	// Start has head and the payload sent to a socket and then calls done.Sent
	// once, on another thread. Until then the caller leaves head, the payload and
	// the socket's descriptor alone. What is sent may be another reply, with less
	// data, if it turns out that there is no more. It returns false if it cannot
	// be now; then SendTo can. more is as for SendTo.
	Start(sock int, head []byte, more bool, done Sent) bool
}

// Sent is told how a payload that was started has fared: err is nil if all of it
// has left.
type Sent interface{ Sent(err error) }

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
	c.rec = rec
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
	case Wait, Again, Parked:
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
