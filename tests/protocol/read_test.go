package protocol

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sluice/tests/protocol/wire"
)

const rtmax = 1 << 20

// Rows "READ at or past the end", "READ that reaches the end", "READ count 0" and
// "READ count over rtmax": eof exactly when offset+count reaches the size
// (RFC 1813 section 3.3.6, as Linux does it), at every boundary of a page, of
// the sizes where the server changes its way of sending, and of the file.
func TestReadBoundaries(t *testing.T) {
	c := dial(t, sharedServer(t))
	fh := c.find(c.mount(treePath("pub")), "big")
	const size = bigSize
	var offsets []uint64
	for _, at := range []int{0, 4096, 32 << 10, 64 << 10, 1 << 20, 2 << 20, size - 1<<20, size - 64<<10, size - 32<<10, size - 4096, size} {
		for d := -1; d <= 1; d++ {
			if at+d >= 0 {
				offsets = append(offsets, uint64(at+d))
			}
		}
	}
	offsets = append(offsets, size-2, size+4096, 1<<40)
	counts := []uint32{0, 1, 2, 3, 4, 5, 4095, 4096, 4097, 32<<10 - 1, 32 << 10, 32<<10 + 1, 64<<10 - 1, 64 << 10, 64<<10 + 1, 1<<20 - 1, 1 << 20}
	for _, off := range offsets {
		for _, count := range counts {
			checkRead(t, c, fh, size, off, count)
		}
	}
}

func checkRead(t *testing.T, c *client, fh []byte, size, off uint64, count uint32) {
	t.Helper()
	r := c.read(fh, off, count)
	want := 0
	if off < size {
		want = int(min(uint64(count), size-off))
	}
	eof := off >= size || off+uint64(count) >= size
	if r.status != wire.OK || r.attr == nil || len(r.data) != want || r.eof != eof {
		t.Errorf("READ %d+%d of %d: status %d, %d bytes, eof %v; want %d bytes, eof %v", off, count, size, r.status, len(r.data), r.eof, want, eof)
		return
	}
	if !bytes.Equal(r.data, pattern(int(off), want)) {
		t.Errorf("READ %d+%d: wrong data", off, count)
	}
}

// READ of an empty file: at its end from the start.
func TestReadEmpty(t *testing.T) {
	c := dial(t, sharedServer(t))
	fh := c.find(c.mount(treePath("pub")), "empty")
	for _, off := range []uint64{0, 1, 1 << 20} {
		for _, count := range []uint32{0, 1, 1 << 20} {
			if r := c.read(fh, off, count); r.status != wire.OK || len(r.data) != 0 || !r.eof {
				t.Errorf("READ %d+%d: status %d, %d bytes, eof %v", off, count, r.status, len(r.data), r.eof)
			}
		}
	}
}

// Row "READ count over rtmax": a short read with eof FALSE, unless the file ends
// within rtmax; never an abort.
func TestReadOverRtmax(t *testing.T) {
	c := dial(t, sharedServer(t))
	fh := c.find(c.mount(treePath("pub")), "big")
	for _, count := range []uint32{rtmax + 1, 2 << 20, 1 << 31, math.MaxUint32} {
		for _, row := range []struct {
			off  uint64
			want int
			eof  bool
		}{{0, rtmax, false}, {5, rtmax, false}, {bigSize - rtmax - 1, rtmax, false}, {bigSize - rtmax, rtmax, true}, {bigSize - 3, 3, true}, {bigSize, 0, true}} {
			r := c.read(fh, row.off, count)
			if r.status != wire.OK || len(r.data) != row.want || r.eof != row.eof || !bytes.Equal(r.data, pattern(int(row.off), row.want)) {
				t.Errorf("READ %d+%d: status %d, %d bytes, eof %v; want %d bytes, eof %v", row.off, count, r.status, len(r.data), r.eof, row.want, row.eof)
			}
		}
	}
}

// Row "offset or offset+count over 2^63-1": clamped, never overflowing. A sparse
// file of the largest size there is makes the edge real.
func TestReadOffsetEdges(t *testing.T) {
	needRoot(t)
	dir := value(os.MkdirTemp(scratch, "huge-"))(t)
	mountTmpfs(t, dir)
	f := value(os.Create(filepath.Join(dir, "huge")))(t)
	const size = math.MaxInt64
	must(t, f.Truncate(size))
	value(f.WriteAt([]byte("end"), size-3))(t)
	must(t, f.Close())
	s := startServer(t, dir+" *(ro,insecure,no_root_squash,no_subtree_check)\n")
	c := dial(t, s)
	fh := c.find(c.mount(dir), "huge")
	for _, row := range []struct {
		off   uint64
		count uint32
		want  string
		eof   bool
	}{
		{size - 3, 3, "end", true},
		{size - 3, 2, "en", false},
		{size - 3, 100, "end", true},
		{size - 3, 1 << 20, "end", true},
		{size - 1, math.MaxUint32, "d", true},
		{size - 1, 0, "", false},
		{size, 0, "", true},
		{size, 10, "", true},
		{size + 1, 10, "", true},
		{math.MaxUint64 - 5, 10, "", true},
		{math.MaxUint64, math.MaxUint32, "", true},
	} {
		r := c.read(fh, row.off, row.count)
		if r.status != wire.OK || string(r.data) != row.want || r.eof != row.eof {
			t.Errorf("READ %d+%d: status %d, %q, eof %v; want %q, %v", row.off, row.count, r.status, r.data, r.eof, row.want, row.eof)
		}
	}
	if r := c.read(fh, size-(1<<20)-1, 1<<20); len(r.data) != 1<<20 || r.eof || string(r.data[1<<20-2:]) != "en" {
		t.Errorf("READ of the last MiB but one byte: %d bytes, eof %v", len(r.data), r.eof)
	}
}

// Row "READ of something not a file": ISDIR for directories, INVAL for the rest,
// with attributes. TestSpecialFiles says that nothing is opened for it.
func TestReadNotAFile(t *testing.T) {
	needRoot(t)
	c := dial(t, sharedServer(t))
	root := c.mount(treePath("pub"))
	for name, want := range map[string]uint32{"dir": wire.ErrIsdir, "link": wire.ErrInval, "fifo": wire.ErrInval,
		"sock": wire.ErrInval, "chr": wire.ErrInval, "blk": wire.ErrInval} {
		for _, count := range []uint32{0, 10} {
			if r := c.read(c.find(root, name), 0, count); r.status != want || r.attr == nil {
				t.Errorf("READ %d of %s: status %d, attributes %v; want %d with them", count, name, r.status, r.attr != nil, want)
			}
		}
	}
}

// Row "permission to READ": the owner may read a file of mode 000, whoever may
// execute one may read it (section 4.4); groups count; count 0 is checked too.
func TestReadPermission(t *testing.T) {
	needRoot(t)
	c := dial(t, sharedServer(t))
	root := c.mount(treePath("pub"))
	for _, row := range []struct {
		name, who string
		cred      wire.Opaque
		want      uint32
	}{
		{"mode000", "owner", wire.Sys(owner, 5), wire.OK},
		{"mode000", "group", wire.Sys(5, owner), wire.ErrAcces},
		{"mode000", "root", wire.Sys(0, 0), wire.OK},
		{"ownerwrite", "owner", wire.Sys(owner, 5), wire.OK},
		{"execonly", "stranger", wire.Sys(2000, 2000), wire.OK},
		{"secret", "stranger", wire.Sys(2000, 2000), wire.ErrAcces},
		{"teamread", "stranger", wire.Sys(2000, 2000), wire.ErrAcces},
		{"teamread", "supplementary group", wire.Sys(2000, 2000, 7, team), wire.OK},
		{"grouponly", "group", wire.Sys(2000, owner), wire.OK},
		{"hello", "stranger", wire.Sys(2000, 2000), wire.OK},
	} {
		fh := c.find(root, row.name)
		for _, count := range []uint32{0, 100} {
			// Twice: the second may come from what the server remembers.
			for range 2 {
				if r := c.as(row.cred).read(fh, 0, count); r.status != row.want || r.attr == nil {
					t.Errorf("READ %d of %s as %s: status %d, want %d with attributes", count, row.name, row.who, r.status, row.want)
				}
			}
		}
	}
}

// A change of mode holds from the next READ on.
func TestReadPermissionChanges(t *testing.T) {
	needRoot(t)
	c := dial(t, sharedServer(t))
	path := treePath("pub", "chmod")
	must(t, os.WriteFile(path, []byte(helloText), 0o644))
	t.Cleanup(func() { os.Remove(path) })
	fh := c.find(c.mount(treePath("pub")), "chmod")
	who := c.as(wire.Sys(2000, 2000))
	for i := range 200 {
		if i == 1 || i == 101 { // the last change has become old, and what it allows may be remembered
			time.Sleep(250 * time.Millisecond)
			who.read(fh, 0, 5)
		}
		mode, want := os.FileMode(0o644), uint32(wire.OK)
		if i%2 == 1 {
			mode, want = 0o600, wire.ErrAcces
		}
		must(t, os.Chmod(path, mode))
		if r := who.read(fh, 0, 5); r.status != want {
			t.Fatalf("READ after chmod %o: status %d, want %d", mode, r.status, want)
		}
	}
}

// The same calls give the same bytes whatever way READ data leaves: whole
// replies are compared.
func TestSendPathsAgree(t *testing.T) {
	must(t, makeTree())
	exports := treePath("pub") + " *(ro,insecure,no_root_squash,fsid=9,no_subtree_check)\n"
	replies := make(map[string][][]byte)
	paths := []string{"copy", "splice", "uring", "auto"}
	var state string
	for _, path := range paths {
		s := newServer(t, exports, "--send-path", path)
		if state == "" {
			state = s.state
		}
		s.state = state // one key, so that handles are the same
		must(t, s.start("127.0.0.1:0"))
		replies[path] = readReplies(t, dial(t, s))
		st := value(s.status())(t)
		taken := map[string]bool{"copy": st.NFS.Send.Copied > 0, "splice": st.NFS.Send.Spliced > 0, "uring": st.NFS.Send.Ringed > 0}
		if path != "auto" && (!taken[path] || taken["splice"] != (path == "splice")) {
			t.Errorf("%s: %+v", path, st.NFS.Send)
		}
		must(t, s.awaitIdle(1))
		must(t, s.stop())
	}
	for _, path := range paths[1:] {
		for i := range replies[path] {
			if !bytes.Equal(replies[path][i], replies[paths[0]][i]) {
				t.Errorf("reply %d by %s differs from %s: %d and %d bytes", i, path, paths[0], len(replies[path][i]), len(replies[paths[0]][i]))
			}
		}
	}
}

// readReplies returns the whole records that answer READs of many shapes,
// pipelined in groups so that batching takes part.
func readReplies(t *testing.T, c *client) [][]byte {
	t.Helper()
	fh := c.find(c.mount(treePath("pub")), "big")
	var calls [][]byte
	for i, shape := range [][2]int{{0, 10}, {1, 4096}, {0, 32 << 10}, {0, 32<<10 + 1}, {7, 64 << 10}, {7, 64<<10 + 3}, {4096, 1 << 20},
		{3, 1 << 20}, {bigSize - 1<<20, 1 << 20}, {bigSize - 70001, 1 << 20}, {bigSize, 5}, {1 << 20, 2 << 20}, {5, 0}} {
		call := wire.NewCall(wire.NFS, 3, wire.Read, readArgs(fh, uint64(shape[0]), uint32(shape[1])))
		call.XID = uint32(1000 + i)
		calls = append(calls, wire.Mark(call.Record()))
	}
	var out [][]byte
	for _, group := range []int{1, 4, len(calls)} {
		for at := 0; at < len(calls); at += group {
			n := min(group, len(calls)-at)
			must(t, c.conn.Send(bytes.Join(calls[at:at+n], nil)))
			byXID := make(map[string][]byte)
			for range n {
				rec := value(c.conn.Receive())(t)
				byXID[string(rec[:4])] = rec
			}
			for _, call := range calls[at : at+n] {
				rec := byXID[string(call[4:8])]
				if rec == nil {
					t.Fatalf("no reply to xid % x", call[4:8])
				}
				out = append(out, rec)
			}
		}
	}
	return out
}
