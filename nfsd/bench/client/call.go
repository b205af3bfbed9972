package client

import (
	"encoding/binary"
	"os"

	"sluice/rpc/xdr"
)

// Programs and procedures, as RFC 1813 and RFC 1833 number them.
const (
	progPortmap = 100000
	progNFS     = 100003
	progMount   = 100005

	version3    = 3
	portmapVers = 2

	procNull           = 0
	pmapprocGetport    = 3
	mountprocMnt       = 1
	nfsprocGetattr     = 1
	nfsprocLookup      = 3
	nfsprocAccess      = 4
	nfsprocRead        = 6
	nfsprocReaddirplus = 17
	nfsprocFsinfo      = 19
)

const (
	markLen      = 4
	lastFragment = 1 << 31
	rpcVersion   = 2
	authSys      = 1
	maxGroups    = 16 // of AUTH_SYS, RFC 5531 appendix A
	maxMachine   = 255
	maxFH        = 64 // NFS3_FHSIZE
)

// credential is AUTH_SYS as this process: its effective user and its groups.
func credential() []byte {
	machine, _ := os.Hostname()
	groups, _ := os.Getgroups()
	body := xdr.AppendUint32(nil, uint32(os.Getpid())) // stamp
	body = xdr.AppendString(body, machine[:min(len(machine), maxMachine)])
	body = xdr.AppendUint32(body, uint32(os.Geteuid()))
	body = xdr.AppendUint32(body, uint32(os.Getegid()))
	groups = groups[:min(len(groups), maxGroups)]
	body = xdr.AppendUint32(body, uint32(len(groups)))
	for _, g := range groups {
		body = xdr.AppendUint32(body, uint32(g))
	}
	b := xdr.AppendUint32(nil, authSys)
	b = xdr.AppendOpaque(b, body)
	return xdr.AppendUint64(b, 0) // no verifier
}

// XIDAt is where the transaction identifier is in an encoded call.
const XIDAt = markLen

// encode makes a call as one record. The transaction identifier is 0.
func encode(cred []byte, prog, vers, proc uint32, args []byte) []byte {
	b := make([]byte, markLen, markLen+24+len(cred)+len(args))
	for _, v := range []uint32{0, 0, rpcVersion, prog, vers, proc} {
		b = xdr.AppendUint32(b, v)
	}
	b = append(append(b, cred...), args...)
	binary.BigEndian.PutUint32(b, lastFragment|uint32(len(b)-markLen))
	return b
}

// Call is a call that is sent many times: Bytes hold the record, in which the
// sender sets the transaction identifier and, if OffsetAt is not 0, the offset
// there and the count behind it.
type Call struct {
	Bytes    []byte
	OffsetAt int
	// Null says that the results are empty: no nfsstat3 begins them.
	Null bool
}

func nfsCall(cred []byte, proc uint32, args []byte) Call {
	return Call{Bytes: encode(cred, progNFS, version3, proc, args)}
}

// Null is the procedure that does nothing.
func (s *Server) Null() Call {
	c := nfsCall(s.cred, procNull, nil)
	c.Null = true
	return c
}

// Getattr asks for an object's attributes.
func (s *Server) Getattr(fh []byte) Call {
	return nfsCall(s.cred, nfsprocGetattr, xdr.AppendOpaque(nil, fh))
}

// Lookup looks name up in a directory.
func (s *Server) Lookup(dir []byte, name string) Call {
	return nfsCall(s.cred, nfsprocLookup, xdr.AppendString(xdr.AppendOpaque(nil, dir), name))
}

// Access asks for all the rights that there are.
func (s *Server) Access(fh []byte) Call {
	const all = 0x3f // ACCESS3_READ to ACCESS3_EXECUTE
	return nfsCall(s.cred, nfsprocAccess, xdr.AppendUint32(xdr.AppendOpaque(nil, fh), all))
}

// Readdirplus lists a directory from its beginning, up to maxCount bytes.
func (s *Server) Readdirplus(dir []byte, maxCount uint32) Call {
	args := xdr.AppendOpaque(nil, dir)
	args = xdr.AppendUint64(args, 0) // cookie
	args = xdr.AppendUint64(args, 0) // cookie verifier
	args = xdr.AppendUint32(args, maxCount)
	return nfsCall(s.cred, nfsprocReaddirplus, xdr.AppendUint32(args, maxCount))
}

// Read reads from a file; offset and count are to be set.
func (s *Server) Read(fh []byte) Call {
	c := nfsCall(s.cred, nfsprocRead, xdr.AppendUint32(xdr.AppendUint64(xdr.AppendOpaque(nil, fh), 0), 0))
	c.OffsetAt = len(c.Bytes) - 12
	return c
}
