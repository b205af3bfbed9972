package wire

// NFSv3 procedures (RFC 1813 section 3.3).
const (
	Null = iota
	Getattr
	Setattr
	Lookup
	Access
	Readlink
	Read
	Write
	Create
	Mkdir
	Symlink
	Mknod
	Remove
	Rmdir
	Rename
	Link
	Readdir
	Readdirplus
	Fsstat
	Fsinfo
	Pathconf
	Commit
)

// nfsstat3 (section 2.6).
const (
	OK            = 0
	ErrPerm       = 1
	ErrNoent      = 2
	ErrAcces      = 13
	ErrNotdir     = 20
	ErrIsdir      = 21
	ErrInval      = 22
	ErrRofs       = 30
	ErrNametoo    = 63
	ErrStale      = 70
	ErrBadhandle  = 10001
	ErrBadCookie  = 10003
	ErrTooSmall   = 10005
	ErrJukebox    = 10008
	FHSize        = 64
	CookieVerfLen = 8
)

// ftype3 (section 2.6).
const (
	Reg = 1 + iota
	Dir
	Blk
	Chr
	Lnk
	Sock
	Fifo
)

// ACCESS bits (section 3.3.4).
const (
	AccessRead    = 0x01
	AccessLookup  = 0x02
	AccessModify  = 0x04
	AccessExtend  = 0x08
	AccessDelete  = 0x10
	AccessExecute = 0x20
	AccessAll     = 0x3f
)

// Attr is a fattr3 (section 2.6).
type Attr struct {
	Type, Mode, Nlink, UID, GID uint32
	Size, Used                  uint64
	Major, Minor                uint32
	FSID, FileID                uint64
	Atime, Mtime, Ctime         [2]uint32
}

// Attr reads a fattr3.
func (d *Dec) Attr() (a Attr) {
	a.Type, a.Mode, a.Nlink, a.UID, a.GID = d.U32(), d.U32(), d.U32(), d.U32(), d.U32()
	a.Size, a.Used = d.U64(), d.U64()
	a.Major, a.Minor = d.U32(), d.U32()
	a.FSID, a.FileID = d.U64(), d.U64()
	for _, t := range []*[2]uint32{&a.Atime, &a.Mtime, &a.Ctime} {
		t[0], t[1] = d.U32(), d.U32()
	}
	return a
}

// PostOp reads a post_op_attr; nil if it has no attributes.
func (d *Dec) PostOp() *Attr {
	if !d.Bool() {
		return nil
	}
	a := d.Attr()
	return &a
}

// Wcc reads wcc_data: whether attributes from before are there, and those after.
func (d *Dec) Wcc() (before bool, after *Attr) {
	if before = d.Bool(); before {
		d.U64() // size
		d.U64() // mtime
		d.U64() // ctime
	}
	return before, d.PostOp()
}

// FH reads an nfs_fh3, which is not empty.
func (d *Dec) FH() []byte {
	fh := d.Opaque(FHSize)
	if len(fh) == 0 {
		d.fail("empty file handle")
	}
	return fh
}

// PostOpFH reads a post_op_fh3; nil if it has no handle.
func (d *Dec) PostOpFH() []byte {
	if !d.Bool() {
		return nil
	}
	return d.FH()
}

// Entry is an entry of READDIR, or of READDIRPLUS with its last two fields.
type Entry struct {
	FileID uint64
	Name   string
	Cookie uint64
	Attr   *Attr
	FH     []byte
	// Size is how many bytes it took, its value-follows flag included.
	Size int
}

// Entries reads a dirlist3 or dirlistplus3 with its end.
func (d *Dec) Entries(plus bool) (list []Entry, eof bool) {
	for at := len(d.B); d.Bool(); at = len(d.B) {
		e := Entry{FileID: d.U64(), Name: string(d.Opaque(1 << 16)), Cookie: d.U64()}
		if plus {
			e.Attr, e.FH = d.PostOp(), d.PostOpFH()
		}
		e.Size = at - len(d.B)
		list = append(list, e)
	}
	return list, d.Bool()
}
