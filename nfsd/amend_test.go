package nfsd

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/rpc/xdr"
)

// A reply to READ whose file turned out shorter, or unreadable, when its data was
// to leave: mark, status, size, count and eof agree with what follows (RFC 1813,
// section 3.3.6; RFC 5531, section 11), and what was before it in the batch stays.
func TestAmendRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(path, make([]byte, 5000), 0o640))
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(fd)
	var a attr
	must(t, unix.Fstat(fd, &a.Stat_t))
	a.fsid = 0x1122334455667788
	const before = "an earlier reply"
	reply := append([]byte(before), 0, 0, 0, 0)
	reply = append(reply, bytes.Repeat([]byte{7}, 24)...) // the header of an accepted reply
	reply = appendReadOK(reply, &a, 4000, false)
	must(t, os.Truncate(path, 3001))

	for _, row := range []struct {
		off    int64
		n      int
		err    error
		status nfsstat3
		eof    bool
	}{
		{1000, 2001, nil, nfs3OK, true}, {1000, 1997, nil, nfs3OK, false}, {3001, 0, nil, nfs3OK, true}, {0, 0, unix.EIO, nfs3ErrIO, false},
	} {
		got := amendRead(bytes.Clone(reply), fd, row.off, row.n, row.err)
		if !bytes.HasPrefix(got, reply[:len(before)]) || !bytes.Equal(got[len(before)+4:][:24], reply[len(before)+4:][:24]) {
			t.Fatalf("%+v: other bytes in front", row)
		}
		mark := binary.BigEndian.Uint32(got[len(before):])
		if size := len(got) - len(before) - 4 + (row.n+3)&^3; mark != 1<<31|uint32(size) {
			t.Errorf("%+v: mark %#x, want a last fragment of %d", row, mark, size)
		}
		r := xdr.NewReader(got[len(before)+28:])
		if st := nfsstat3(r.Uint32()); st != row.status {
			t.Errorf("%+v: status %d", row, st)
		}
		if row.err != nil {
			if follows := r.Uint32(); follows != 0 || r.Err() != nil || len(got) != len(before)+28+8 {
				t.Errorf("%+v: % x", row, got[len(before):])
			}
			continue
		}
		f := got[len(before)+28+8:]
		if size, fsid := binary.BigEndian.Uint64(f[20:]), binary.BigEndian.Uint64(f[44:]); size != 3001 || fsid != a.fsid {
			t.Errorf("%+v: size %d, fsid %#x", row, size, fsid)
		}
		tail := xdr.NewReader(f[84:])
		if count, eof, n := tail.Uint32(), tail.Uint32(), tail.Uint32(); int(count) != row.n || int(n) != row.n || eof == 1 != row.eof || tail.Err() != nil {
			t.Errorf("%+v: count %d, eof %d, length %d", row, count, eof, n)
		}
	}
}
