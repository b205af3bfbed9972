package nfsd

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"math"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/rpc/xdr"
)

// codec is an argument codec: parse reads the arguments and says whether they
// are good; good is a sample in hex (RFC 1813 section 3.3).
type codec struct {
	proc  int
	name  string
	parse func(r *xdr.Reader) bool
	good  string
}

const (
	fhHex    = "00000005 0102030405000000"           // a handle of 5 bytes
	nameHex  = "00000003 61626300"                   // "abc"
	sattrHex = "00000000 00000000 00000000 00000000" // mode, uid, gid, size: leave
	timesHex = "00000001 00000002 00000001 00000002" // atime: the server's; mtime: 1.000000002
	allHex   = "00000001 000001a4 00000001 00000005 00000000 00000001 0000000000000007" + "00000000 00000000"
)

func modifyingCodec(parse func(*xdr.Reader) ([2][]byte, bool)) func(*xdr.Reader) bool {
	return func(r *xdr.Reader) bool { _, ok := parse(r); return ok && r.Err() == nil }
}

var codecs = []codec{
	{1, "GETATTR", func(r *xdr.Reader) bool { _, ok := parseHandle(r); return ok }, fhHex},
	{2, "SETATTR", modifyingCodec(parseSetattr), fhHex + sattrHex + timesHex + "00000001 00000001 00000002"},
	{3, "LOOKUP", func(r *xdr.Reader) bool { _, _, ok := parseDirOp(r); return ok }, fhHex + nameHex},
	{6, "READ", func(r *xdr.Reader) bool { _, ok := parseRead(r); return ok }, fhHex + "0000000000001000 00010000"},
	{7, "WRITE", modifyingCodec(parseWrite), fhHex + "0000000000001000 00000003 00000002" + nameHex},
	{8, "CREATE", modifyingCodec(parseCreate), fhHex + nameHex + "00000002 0102030405060708"},
	{8, "CREATE", modifyingCodec(parseCreate), fhHex + nameHex + "00000001" + allHex},
	{9, "MKDIR", modifyingCodec(parseMkdir), fhHex + nameHex + sattrHex + timesHex},
	{10, "SYMLINK", modifyingCodec(parseSymlink), fhHex + nameHex + sattrHex + timesHex + nameHex},
	{11, "MKNOD", modifyingCodec(parseMknod), fhHex + nameHex + "00000003" + sattrHex + timesHex + "00000001 00000003"},
	{11, "MKNOD", modifyingCodec(parseMknod), fhHex + nameHex + "00000007" + allHex},
	{12, "REMOVE", modifyingCodec(parseName), fhHex + nameHex},
	{14, "RENAME", modifyingCodec(parseRename), fhHex + nameHex + fhHex + nameHex},
	{15, "LINK", modifyingCodec(parseLink), fhHex + fhHex + nameHex},
	{16, "READDIR", func(r *xdr.Reader) bool { _, ok := parseReaddir(r, false); return ok }, fhHex + "0000000000000007 0102030405060708 00001000"},
	{17, "READDIRPLUS", func(r *xdr.Reader) bool { _, ok := parseReaddir(r, true); return ok }, fhHex + "0000000000000007 0102030405060708 00001000 00002000"},
	{21, "COMMIT", modifyingCodec(parseCommit), fhHex + "0000000000001000 00010000"},
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	must(t, err)
	return b
}

// Whole arguments are taken whole; cut at any byte they are refused.
func TestArguments(t *testing.T) {
	for _, c := range codecs {
		b := unhex(t, c.good)
		r := xdr.NewReader(append(bytes.Clone(b), "rest"...))
		if !c.parse(&r) || string(r.Rest()) != "rest" {
			t.Errorf("%s: refused, or %q is left behind it", c.name, r.Rest())
		}
		for n := range b {
			r := xdr.NewReader(b[:n])
			if c.parse(&r) {
				t.Errorf("%s: the first %d of %d bytes are taken", c.name, n, len(b))
			}
		}
	}
}

func TestParseValues(t *testing.T) {
	r := xdr.NewReader(unhex(t, fhHex+"0000000000001000 00010000"))
	if a, ok := parseRead(&r); !ok || !bytes.Equal(a.fh, []byte{1, 2, 3, 4, 5}) || a.offset != 4096 || a.count != 65536 {
		t.Errorf("READ: %+v, %v", a, ok)
	}
	r = xdr.NewReader(unhex(t, fhHex+"8000000000000007 0102030405060708 00001000 00002000"))
	if a, ok := parseReaddir(&r, true); !ok || a.cookie != 1<<63+7 || a.dircount != 4096 || a.maxcount != 8192 {
		t.Errorf("READDIRPLUS: %+v, %v", a, ok)
	}
	r = xdr.NewReader(unhex(t, fhHex+nameHex))
	if dir, name, ok := parseDirOp(&r); !ok || len(dir) != 5 || string(name) != "abc" {
		t.Errorf("LOOKUP: % x, %q, %v", dir, name, ok)
	}
	for _, bad := range []string{"00000000", "00000041" + strings.Repeat("00", 68)} {
		r = xdr.NewReader(unhex(t, bad))
		if fh, ok := parseHandle(&r); ok {
			t.Errorf("a handle of %d bytes is taken", len(fh))
		}
	}
}

// fattr3 byte for byte (section 2.6).
func TestAppendFattr(t *testing.T) {
	a := attr{fsid: 0x1112131415161718}
	a.Mode, a.Nlink, a.Uid, a.Gid = unix.S_IFCHR|0o4755, 3, 1000, 2000
	a.Size, a.Blocks, a.Rdev, a.Ino = 0x2122232425262728, 3, unix.Mkdev(0x31, 0x32), 0x4142434445464748
	a.Atim, a.Mtim, a.Ctim = unix.Timespec{Sec: 1, Nsec: 2}, unix.Timespec{Sec: 3, Nsec: 4}, unix.Timespec{Sec: -1, Nsec: 6}
	want := unhex(t, "00000004 000009ed 00000003 000003e8 000007d0 2122232425262728 0000000000000600 00000031 00000032"+
		"1112131415161718 4142434445464748 00000001 00000002 00000003 00000004 ffffffff 00000006")
	if got := appendFattr(nil, &a); !bytes.Equal(got, want) || len(got) != fattrLen {
		t.Errorf("\n got % x\nwant % x", got, want)
	}
}

// Types are those of ftype3; a directory has two links at least.
func TestTypesAndLinks(t *testing.T) {
	for mode, want := range map[uint32]uint32{unix.S_IFREG: 1, unix.S_IFDIR: 2, unix.S_IFBLK: 3, unix.S_IFCHR: 4,
		unix.S_IFLNK: 5, unix.S_IFSOCK: 6, unix.S_IFIFO: 7} {
		if got := fileType(mode | 0o777); got != want {
			t.Errorf("mode %o is type %d, want %d", mode, got, want)
		}
		for links, wantLinks := range map[uint64]uint32{0: 0, 1: 1, 2: 2, 5: 5} {
			if mode == unix.S_IFDIR {
				wantLinks = max(2, wantLinks)
			}
			a := attr{}
			a.Mode, a.Nlink = mode, links
			if got := nlink(&a); got != wantLinks {
				t.Errorf("mode %o with %d links shows %d", mode, links, got)
			}
		}
	}
}

// A READ never leaves the file, and nothing overflows.
func TestClamp(t *testing.T) {
	const rtmax = 1 << 20
	for _, row := range []struct {
		offset uint64
		count  uint32
		size   int64
		off    int64
		n      int
	}{
		{0, 10, 100, 0, 10}, {95, 10, 100, 95, 5}, {100, 10, 100, 0, 0}, {101, 10, 100, 0, 0}, {0, 0, 100, 0, 0}, {0, 10, 0, 0, 0},
		{0, math.MaxUint32, math.MaxInt64, 0, rtmax}, {math.MaxInt64 - 1, 10, math.MaxInt64, math.MaxInt64 - 1, 1},
		{math.MaxInt64, 10, math.MaxInt64, 0, 0}, {1 << 63, 10, math.MaxInt64, 0, 0}, {math.MaxUint64, math.MaxUint32, math.MaxInt64, 0, 0},
	} {
		off, n := clamp(readArgs{offset: row.offset, count: row.count}, row.size, rtmax)
		if n != row.n || n > 0 && off != row.off {
			t.Errorf("READ %d+%d of %d: %d+%d, want %d+%d", row.offset, row.count, row.size, off, n, row.off, row.n)
		}
	}
}

// Errors of the kernel as nfserrno of Linux maps them (fs/nfsd/vfs.c).
func TestStatusOf(t *testing.T) {
	for err, want := range map[error]nfsstat3{
		nil: 0, unix.EPERM: 1, unix.ENOENT: 2, unix.EIO: 5, unix.ENXIO: 6, unix.EACCES: 13, unix.ENODEV: 19, unix.ENOTDIR: 20,
		unix.EISDIR: 21, unix.EINVAL: 22, unix.EFBIG: 27, unix.ENAMETOOLONG: 63, unix.EDQUOT: 69, unix.ESTALE: 70,
		unix.EOPNOTSUPP: 10004, unix.EAGAIN: 10008, unix.ENOMEM: 10008, unix.EMFILE: 10008, unix.EUCLEAN: 5, os.ErrClosed: 5,
	} {
		if got := statusOf(err); got != want {
			t.Errorf("%v is %d, want %d", err, got, want)
		}
	}
}

// capturedArgs are the arguments of NFSv3 calls that real clients made: what is
// behind the header of 24 bytes, credential and verifier.
func capturedArgs(t testing.TB) (args [][]byte) {
	t.Helper()
	f, err := os.Open("../rpc/testdata/calls.hex")
	must(t, err)
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if !strings.HasPrefix(s.Text(), "100003/3/") {
			continue
		}
		_, digits, _ := strings.Cut(s.Text(), " ")
		r := xdr.NewReader(unhex(t, digits)[24:])
		for range 2 {
			r.Uint32()
			r.Opaque(400)
		}
		must(t, r.Err())
		args = append(args, r.Rest())
	}
	if len(args) == 0 {
		t.Fatal("no NFSv3 calls in rpc/testdata/calls.hex")
	}
	return args
}

// Whatever the arguments are, no codec panics, reads past their end, or takes
// what it says was cut short.
func FuzzArguments(f *testing.F) {
	for _, c := range codecs {
		f.Add(unhex(f, c.good))
	}
	for _, args := range capturedArgs(f) {
		f.Add(args)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, c := range codecs {
			r := xdr.NewReader(b)
			ok := c.parse(&r)
			if ok != (r.Err() == nil) && ok {
				t.Fatalf("%s: taken, with the error %v", c.name, r.Err())
			}
			if ok && r.Len() > len(b)-4 {
				t.Fatalf("%s: taken without reading anything", c.name)
			}
			if !ok {
				continue
			}
			used := len(b) - r.Len()
			again := xdr.NewReader(b[:used])
			if !c.parse(&again) || again.Len() != 0 {
				t.Fatalf("%s: took %d bytes, which alone are refused", c.name, used)
			}
			short := xdr.NewReader(b[:used-1])
			if c.parse(&short) {
				t.Fatalf("%s: took %d bytes, and one less too", c.name, used)
			}
		}
	})
}
