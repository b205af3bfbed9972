package nfsd

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"sluice/rpc"
	"sluice/rpc/xdr"
)

// Arguments. Each parse function reads one argument structure of RFC 1813; the
// caller looks at r.Err() once. File handles and names alias the call.

// parseHandle reads an nfs_fh3. An empty one is an encoding error for Linux.
func parseHandle(r *xdr.Reader) (fh []byte, ok bool) {
	fh = r.Opaque(nfs3FHSize)
	return fh, r.Err() == nil && len(fh) > 0
}

// parseDirOp reads a diropargs3. The length of the name is judged by the
// procedure, whose answer may be NFS3ERR_NAMETOOLONG.
func parseDirOp(r *xdr.Reader) (dir, name []byte, ok bool) {
	dir, ok = parseHandle(r)
	name = r.Opaque(rpc.MaxRecord)
	return dir, name, ok && r.Err() == nil
}

type readArgs struct {
	fh     []byte
	offset uint64
	count  uint32
}

func parseRead(r *xdr.Reader) (a readArgs, ok bool) {
	a.fh, ok = parseHandle(r)
	a.offset, a.count = r.Uint64(), r.Uint32()
	return a, ok && r.Err() == nil
}

type readdirArgs struct {
	fh       []byte
	cookie   uint64
	dircount uint32 // READDIRPLUS only
	maxcount uint32 // READDIR calls it count
}

// parseReaddir reads READDIR3args, or READDIRPLUS3args if plus. The cookie
// verifier is read and not looked at: see cookieVerf.
func parseReaddir(r *xdr.Reader, plus bool) (a readdirArgs, ok bool) {
	a.fh, ok = parseHandle(r)
	a.cookie = r.Uint64()
	r.Fixed(nfs3CookieVerf)
	if plus {
		a.dircount = r.Uint32()
	}
	a.maxcount = r.Uint32()
	return a, ok && r.Err() == nil
}

// Results.

const (
	fattrLen       = 84           // fattr3
	postOpAttrLen  = 4 + fattrLen // post_op_attr, at most
	postOpFHLen    = 4 + 4 + nfs3FHSize
	wccDataLen     = 4 + 24 + postOpAttrLen
	statusLen      = 4
	readResultsLen = statusLen + postOpAttrLen + 12 // count, eof, data length
)

func appendStatus(b []byte, st nfsstat3) []byte { return xdr.AppendUint32(b, uint32(st)) }

// appendNoAttr appends a post_op_attr without attributes.
func appendNoAttr(b []byte) []byte { return xdr.AppendUint32(b, 0) }

// appendPostOp appends a post_op_attr with attributes.
func appendPostOp(b []byte, a *attr) []byte {
	return appendFattr(xdr.AppendUint32(b, 1), a)
}

// appendNoWcc appends wcc_data that tells nothing.
func appendNoWcc(b []byte) []byte { return xdr.AppendUint64(b, 0) }

// appendWcc appends wcc_data of an operation that changed nothing: what Linux
// sends then is the attributes after it and none before.
func appendWcc(b []byte, a *attr) []byte { return appendPostOp(xdr.AppendUint32(b, 0), a) }

// attr is what a fattr3 is made of.
type attr struct {
	unix.Stat_t
	fsid uint64
}

// appendFattr appends a fattr3 (section 2.6).
func appendFattr(b []byte, a *attr) []byte {
	n := len(b)
	b = append(b, make([]byte, fattrLen)...)
	p := b[n : n+fattrLen]
	be := binary.BigEndian
	be.PutUint32(p[0:], fileType(a.Mode))
	be.PutUint32(p[4:], a.Mode&modeBits)
	be.PutUint32(p[8:], nlink(a))
	be.PutUint32(p[12:], a.Uid)
	be.PutUint32(p[16:], a.Gid)
	be.PutUint64(p[20:], uint64(a.Size))
	be.PutUint64(p[28:], uint64(a.Blocks)*512)
	be.PutUint32(p[36:], unix.Major(a.Rdev))
	be.PutUint32(p[40:], unix.Minor(a.Rdev))
	be.PutUint64(p[44:], a.fsid)
	be.PutUint64(p[52:], a.Ino)
	putTime(p[60:], a.Atim)
	putTime(p[68:], a.Mtim)
	putTime(p[76:], a.Ctim)
	return b
}

// nlink reports at least 2 for a directory. Some file systems say 1; macOS then
// takes the directory for empty.
func nlink(a *attr) uint32 {
	if a.Mode&unix.S_IFMT == unix.S_IFDIR && a.Nlink < 2 {
		return 2
	}
	return uint32(a.Nlink)
}

// putTime writes an nfstime3: seconds are 32 bits on the wire.
func putTime(p []byte, t unix.Timespec) {
	binary.BigEndian.PutUint32(p, uint32(t.Sec))
	binary.BigEndian.PutUint32(p[4:], uint32(t.Nsec))
}

func fileType(mode uint32) uint32 {
	switch mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return nf3Dir
	case unix.S_IFBLK:
		return nf3Blk
	case unix.S_IFCHR:
		return nf3Chr
	case unix.S_IFLNK:
		return nf3Lnk
	case unix.S_IFSOCK:
		return nf3Sock
	case unix.S_IFIFO:
		return nf3Fifo
	}
	return nf3Reg
}
