package protocol

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sluice/tests/protocol/wire"
)

// most is the longest READDIR result that the server gives (FSINFO's dtpref).
const most = 64 << 10

// listingDir makes a directory with n files whose names have many lengths.
func listingDir(t *testing.T, n int) (dir string, names []string) {
	t.Helper()
	dir = value(os.MkdirTemp(treePath("pub"), "list-"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o755))
	for i := range n {
		name := fmt.Sprintf("%04d", i) + strings.Repeat("x", i*7%251)
		must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
		names = append(names, name)
	}
	return dir, names
}

// READDIR and READDIRPLUS list what is there, once, with "." and "..", the
// fileids that GETATTR tells and the handles that LOOKUP gives.
func TestReaddir(t *testing.T) {
	s := sharedServer(t)
	dir, names := listingDir(t, 100)
	c := dial(t, s)
	fh := c.mount(dir)
	want := append([]string{".", ".."}, names...)
	slices.Sort(want)
	for _, r := range []listResult{c.readdir(fh, 0, most), c.readdirplus(fh, 0, most, most)} {
		if r.status != wire.OK || !r.eof || r.dir == nil || r.dir.FileID != c.attrOf(fh).FileID {
			t.Fatalf("status %d, eof %v, directory %+v", r.status, r.eof, r.dir)
		}
		var got []string
		for _, e := range r.entries {
			got = append(got, e.Name)
			found := c.lookup(fh, e.Name)
			if found.status != wire.OK || found.attr.FileID != e.FileID {
				t.Errorf("%s: fileid %d, LOOKUP says %+v", e.Name, e.FileID, found.attr)
			}
			if e.Attr != nil && (*e.Attr != *found.attr || !slices.Equal(e.FH, found.fh)) {
				t.Errorf("%s: READDIRPLUS and LOOKUP differ", e.Name)
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%d names, want %d", len(got), len(want))
		}
	}
	for _, e := range c.readdirplus(fh, 0, most, most).entries {
		if (e.Attr == nil || e.FH == nil) && e.Name != ".." {
			t.Errorf("%s: no attributes or handle in READDIRPLUS", e.Name)
		}
	}
}

// Row "READDIR count, READDIRPLUS maxcount": they bound the whole result, XDR
// overhead included (RFC 1813 sections 3.3.16 and 3.3.17), and a result ends only
// where the next entry would not fit or the directory ends.
func TestReaddirCount(t *testing.T) {
	s := sharedServer(t)
	dir, _ := listingDir(t, 120)
	c := dial(t, s)
	fh := c.mount(dir)
	for _, plus := range []bool{false, true} {
		ask := func(count uint32) listResult {
			if plus {
				return c.readdirplus(fh, 0, most, count)
			}
			return c.readdir(fh, 0, count)
		}
		all := ask(most).entries
		for count := uint32(0); count < 12000; count += 1 + count/40 {
			r := ask(count)
			if r.size > int(count) && r.status == wire.OK {
				t.Fatalf("plus %v, count %d: result of %d bytes", plus, count, r.size)
			}
			switch {
			case r.status == wire.ErrTooSmall:
				if fixed := 4 + 88 + 8 + 8; int(count) >= fixed+all[0].Size {
					t.Fatalf("plus %v, count %d: TOOSMALL, though one entry of %d bytes fits", plus, count, all[0].Size)
				}
				if r.dir == nil {
					t.Errorf("count %d: TOOSMALL without attributes", count)
				}
			case r.status != wire.OK:
				t.Fatalf("plus %v, count %d: status %d", plus, count, r.status)
			case len(r.entries) == 0:
				t.Fatalf("plus %v, count %d: no entry, eof %v", plus, count, r.eof)
			case !r.eof && r.size+all[len(r.entries)].Size <= int(count):
				t.Fatalf("plus %v, count %d: ends after %d bytes, though the next entry has %d", plus, count, r.size, all[len(r.entries)].Size)
			}
		}
	}
}

// Row "first entry does not fit": TOOSMALL, never OK with nothing and eof FALSE.
func TestReaddirTooSmall(t *testing.T) {
	c := dial(t, sharedServer(t))
	fh := c.mount(treePath("pub/bare"))
	for _, count := range []uint32{0, 1, 8, 100, 107, 131} { // 108 + 24 for the shortest entry
		for _, r := range []listResult{c.readdir(fh, 0, count), c.readdirplus(fh, 0, most, count)} {
			if r.status != wire.ErrTooSmall || r.dir == nil {
				t.Errorf("count %d: status %d, %d entries, eof %v", count, r.status, len(r.entries), r.eof)
			}
		}
	}
	// A later entry that does not fit is not passed over either.
	dir, _ := listingDir(t, 40)
	long := c.mount(dir)
	cookie := uint64(0)
	for range 100 {
		r := c.readdir(long, cookie, 180) // room for names of up to about 50 bytes
		if r.status == wire.ErrTooSmall {
			return
		}
		if r.status != wire.OK || r.eof || len(r.entries) == 0 {
			t.Fatalf("at %d: status %d, %d entries, eof %v", cookie, r.status, len(r.entries), r.eof)
		}
		cookie = r.entries[len(r.entries)-1].Cookie
	}
	t.Error("a name that does not fit has been passed over")
}

// Row "dircount counts fileid, name and cookie only": it bounds their sum; at
// least one entry comes whatever it says.
func TestReaddirplusDircount(t *testing.T) {
	s := sharedServer(t)
	dir, _ := listingDir(t, 100)
	c := dial(t, s)
	fh := c.mount(dir)
	last := 0
	for _, dircount := range []uint32{1, 24, 100, 512, 1024, 4096, most} {
		r := c.readdirplus(fh, 0, dircount, most)
		if r.status != wire.OK || len(r.entries) == 0 {
			t.Fatalf("dircount %d: status %d, %d entries", dircount, r.status, len(r.entries))
		}
		sum := 0
		for _, e := range r.entries {
			sum += 8 + 4 + (len(e.Name)+3)&^3 + 8
		}
		if sum > int(dircount) && len(r.entries) > 1 {
			t.Errorf("dircount %d: %d entries of %d bytes", dircount, len(r.entries), sum)
		}
		if len(r.entries) < last {
			t.Errorf("dircount %d: %d entries, fewer than for less", dircount, len(r.entries))
		}
		last = len(r.entries)
	}
	if last != 102 {
		t.Errorf("%d entries at most, want 102", last)
	}
}

// Rows "cookieverf" and "cookies": any verifier is accepted; cookies are not zero,
// under 2^63 and good in both procedures; from each one the list goes on with
// the next entry; past the end there is eof and nothing else.
func TestReaddirCookies(t *testing.T) {
	s := sharedServer(t)
	dir, _ := listingDir(t, 150)
	c := dial(t, s)
	fh := c.mount(dir)
	all := c.readdir(fh, 0, most).entries
	seen := make(map[uint64]bool)
	for i, e := range all {
		if e.Cookie == 0 || e.Cookie >= 1<<63 || seen[e.Cookie] {
			t.Errorf("entry %d: cookie %#x", i, e.Cookie)
		}
		seen[e.Cookie] = true
		for _, r := range []listResult{c.readdir(fh, e.Cookie, most), c.readdirplus(fh, e.Cookie, most, most)} {
			if r.status != wire.OK || !r.eof || !slices.EqualFunc(r.entries, all[i+1:], sameEntry) {
				t.Fatalf("after entry %d of %d: status %d, %d entries, eof %v", i, len(all), r.status, len(r.entries), r.eof)
			}
		}
	}
	args := fhArgs(fh).U64(all[3].Cookie).U64(^uint64(0)).U32(most)
	if r := c.decodeList(c.nfs(wire.Readdir, args), false); r.status != wire.OK || len(r.entries) != len(all)-4 {
		t.Errorf("another verifier: status %d, %d entries", r.status, len(r.entries))
	}
	for _, cookie := range []uint64{1 << 63, ^uint64(0)} {
		if r := c.readdir(fh, cookie, most); r.status != wire.ErrBadCookie && !(r.status == wire.OK && r.eof && len(r.entries) == 0) {
			t.Errorf("cookie %#x: status %d, %d entries, eof %v", cookie, r.status, len(r.entries), r.eof)
		}
	}
}

func sameEntry(a, b wire.Entry) bool {
	return a.Name == b.Name && a.FileID == b.FileID && a.Cookie == b.Cookie
}

// Row "cookies … stable while other entries come and go": what stays is listed
// once and only once, on the file systems at hand.
func TestReaddirWhileChanging(t *testing.T) {
	s := sharedServer(t)
	dirs := map[string]string{"disk": value(os.MkdirTemp(treePath("pub"), "change-"))(t)}
	t.Cleanup(func() { os.RemoveAll(dirs["disk"]) })
	if os.Geteuid() == 0 {
		dirs["tmpfs"] = value(makeDir("change-"))(t)
		mountTmpfs(t, dirs["tmpfs"])
	}
	for name, dir := range dirs {
		t.Run(name, func(t *testing.T) {
			srv := s
			if name == "tmpfs" {
				srv = startServer(t, dir+" *(ro,insecure,no_root_squash,no_subtree_check)\n")
			}
			c := dial(t, srv)
			listWhileChanging(t, c, c.mount(dir), dir)
		})
	}
}

func listWhileChanging(t *testing.T, c *client, fh []byte, dir string) {
	const stay = 300
	touch := func(format string, i int) {
		must(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf(format, i)), nil, 0o644))
	}
	for i := range stay {
		touch("stay%d", i)
		touch("go%d", i)
	}
	seen := make(map[string]int)
	cookie := uint64(0)
	for step := 0; ; step++ {
		r := c.readdir(fh, cookie, 400)
		if r.status != wire.OK || len(r.entries) == 0 && !r.eof {
			t.Fatalf("step %d: status %d, %d entries", step, r.status, len(r.entries))
		}
		for _, e := range r.entries {
			seen[e.Name]++
			cookie = e.Cookie
		}
		if r.eof {
			break
		}
		if step > 5000 {
			t.Fatal("the list does not end")
		}
		if step < stay {
			must(t, os.Remove(filepath.Join(dir, fmt.Sprintf("go%d", step))))
			touch("new%d", step)
		}
	}
	for i := range stay {
		if n := seen[fmt.Sprintf("stay%d", i)]; n != 1 {
			t.Errorf("stay%d is listed %d times", i, n)
		}
	}
}

// Row "empty directory": valid XDR with the two entries that there always are,
// and eof; row "list terminator and eof": client.end checks that nothing is
// missing from or behind any list.
func TestReaddirEmptyDirectory(t *testing.T) {
	c := dial(t, sharedServer(t))
	fh := c.mount(treePath("pub/bare"))
	for _, r := range []listResult{c.readdir(fh, 0, 4096), c.readdirplus(fh, 0, 4096, 4096)} {
		if r.status != wire.OK || !r.eof || len(r.entries) != 2 {
			t.Errorf("status %d, eof %v, %d entries", r.status, r.eof, len(r.entries))
		}
	}
	last := c.readdir(fh, 0, 4096).entries[1].Cookie
	if r := c.readdir(fh, last, 4096); r.status != wire.OK || !r.eof || len(r.entries) != 0 {
		t.Errorf("past the end: status %d, eof %v, %d entries", r.status, r.eof, len(r.entries))
	}
}

// The root of an export does not tell the inode of what is above it.
func TestReaddirRootParent(t *testing.T) {
	c := dial(t, sharedServer(t))
	root := c.mount(treePath("pub"))
	want := c.attrOf(root).FileID
	for _, r := range []listResult{c.readdir(root, 0, most), c.readdirplus(root, 0, most, most)} {
		for _, e := range r.entries {
			if (e.Name == ".." || e.Name == ".") && e.FileID != want {
				t.Errorf("%q has fileid %d, the root is %d", e.Name, e.FileID, want)
			}
		}
	}
}

// Listing needs the right to read the directory; not a directory is NOTDIR.
func TestReaddirErrors(t *testing.T) {
	needRoot(t)
	c := dial(t, sharedServer(t))
	root := c.mount(treePath("pub"))
	stranger := c.as(wire.Sys(2000, 2000))
	for _, row := range []struct {
		name string
		who  *client
		want uint32
	}{{"closed", stranger, wire.ErrAcces}, {"closed", c, wire.OK}, {"listonly", stranger, wire.OK}, {"hello", c, wire.ErrNotdir}, {"fifo", c, wire.ErrNotdir}} {
		fh := c.find(root, row.name)
		for _, r := range []listResult{row.who.readdir(fh, 0, most), row.who.readdirplus(fh, 0, most, most)} {
			if r.status != row.want || r.dir == nil {
				t.Errorf("%s: status %d, want %d with attributes", row.name, r.status, row.want)
			}
		}
	}
}
