package nfsd

// NFS version 3 (RFC 1813): numbers and limits, in the RFC's spelling.

const (
	nfsProgram = 100003
	nfsVersion = 3

	nfs3FHSize            = 64 // section 2.4
	nfs3CookieVerf        = 8
	nfs3CreateVerf        = 8
	nfs3MaxName           = 255  // NAME_MAX of Linux
	maxSymlink            = 4096 // PATH_MAX of Linux
	modeBits       uint32 = 0o7777
)

// nfsstat3 (section 2.6). The zero value is NFS3_OK.
type nfsstat3 uint32

const (
	nfs3OK             nfsstat3 = 0
	nfs3ErrPerm        nfsstat3 = 1
	nfs3ErrNoent       nfsstat3 = 2
	nfs3ErrIO          nfsstat3 = 5
	nfs3ErrNxio        nfsstat3 = 6
	nfs3ErrAcces       nfsstat3 = 13
	nfs3ErrExist       nfsstat3 = 17
	nfs3ErrXdev        nfsstat3 = 18
	nfs3ErrNodev       nfsstat3 = 19
	nfs3ErrNotdir      nfsstat3 = 20
	nfs3ErrIsdir       nfsstat3 = 21
	nfs3ErrInval       nfsstat3 = 22
	nfs3ErrFbig        nfsstat3 = 27
	nfs3ErrNospc       nfsstat3 = 28
	nfs3ErrRofs        nfsstat3 = 30
	nfs3ErrMlink       nfsstat3 = 31
	nfs3ErrNametoolong nfsstat3 = 63
	nfs3ErrNotempty    nfsstat3 = 66
	nfs3ErrDquot       nfsstat3 = 69
	nfs3ErrStale       nfsstat3 = 70
	nfs3ErrRemote      nfsstat3 = 71
	nfs3ErrBadhandle   nfsstat3 = 10001
	nfs3ErrNotSync     nfsstat3 = 10002
	nfs3ErrBadCookie   nfsstat3 = 10003
	nfs3ErrNotsupp     nfsstat3 = 10004
	nfs3ErrToosmall    nfsstat3 = 10005
	nfs3ErrServerfault nfsstat3 = 10006
	nfs3ErrBadtype     nfsstat3 = 10007
	nfs3ErrJukebox     nfsstat3 = 10008
)

// wait is no protocol value: it tells a handler to return rpc.Wait.
const wait nfsstat3 = ^nfsstat3(0)

// ftype3 (section 2.6).
const (
	nf3Reg  = 1
	nf3Dir  = 2
	nf3Blk  = 3
	nf3Chr  = 4
	nf3Lnk  = 5
	nf3Sock = 6
	nf3Fifo = 7
)

// ACCESS bits (section 3.3.4).
const (
	access3Read    = 0x0001
	access3Lookup  = 0x0002
	access3Modify  = 0x0004
	access3Extend  = 0x0008
	access3Delete  = 0x0010
	access3Execute = 0x0020
)

// FSINFO properties (section 3.3.19).
const (
	fsf3Link        = 0x0001
	fsf3Symlink     = 0x0002
	fsf3Homogeneous = 0x0008
	fsf3CanSetTime  = 0x0010
)
