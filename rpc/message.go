package rpc

import (
	"encoding/binary"

	"sluice/rpc/xdr"
)

// RPC message types and statuses (RFC 5531 section 9).
const (
	msgCall  = 0
	msgReply = 1

	rpcVersion = 2

	replyAccepted = 0
	replyDenied   = 1

	acceptSuccess      = 0
	acceptProgUnavail  = 1
	acceptProgMismatch = 2
	acceptProcUnavail  = 3
	acceptGarbageArgs  = 4
	acceptSystemErr    = 5

	rejectRPCMismatch = 0
	rejectAuthError   = 1
)

// header is the fixed start of a call.
type header struct {
	xid, rpcvers, prog, vers, proc uint32
}

// parseHeader reads the first 24 bytes of a call. ok is false for a record that
// is shorter, and for a reply, neither of which gets an answer.
func parseHeader(rec []byte) (h header, rest []byte, ok bool) {
	if len(rec) < minRecord || binary.BigEndian.Uint32(rec[4:]) != msgCall {
		return h, nil, false
	}
	h.xid = binary.BigEndian.Uint32(rec)
	h.rpcvers = binary.BigEndian.Uint32(rec[8:])
	h.prog = binary.BigEndian.Uint32(rec[12:])
	h.vers = binary.BigEndian.Uint32(rec[16:])
	h.proc = binary.BigEndian.Uint32(rec[20:])
	return h, rec[minRecord:], true
}

// acceptedLen is the length of an accepted reply's header: xid, type, status,
// an AUTH_NONE verifier, accept_stat.
const acceptedLen = 24

// appendAccepted appends a reply header with the given accept_stat.
func appendAccepted(b []byte, xid, stat uint32) []byte {
	b = xdr.AppendUint32(b, xid)
	b = xdr.AppendUint32(b, msgReply)
	b = xdr.AppendUint32(b, replyAccepted)
	b = xdr.AppendUint64(b, AuthNone) // flavour and zero length
	return xdr.AppendUint32(b, stat)
}

// appendProgMismatch answers a version outside low to high.
func appendProgMismatch(b []byte, xid, low, high uint32) []byte {
	b = appendAccepted(b, xid, acceptProgMismatch)
	b = xdr.AppendUint32(b, low)
	return xdr.AppendUint32(b, high)
}

// appendRPCMismatch answers an RPC version other than 2.
func appendRPCMismatch(b []byte, xid uint32) []byte {
	b = appendDenied(b, xid, rejectRPCMismatch)
	b = xdr.AppendUint32(b, rpcVersion)
	return xdr.AppendUint32(b, rpcVersion)
}

// appendAuthError answers a credential or verifier that was refused.
func appendAuthError(b []byte, xid uint32, stat AuthStat) []byte {
	return xdr.AppendUint32(appendDenied(b, xid, rejectAuthError), uint32(stat))
}

func appendDenied(b []byte, xid, stat uint32) []byte {
	b = xdr.AppendUint32(b, xid)
	b = xdr.AppendUint32(b, msgReply)
	b = xdr.AppendUint32(b, replyDenied)
	return xdr.AppendUint32(b, stat)
}
