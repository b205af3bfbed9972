package protocol

import (
	"os"
	"strconv"
	"syscall"
	"testing"

	"sluice/tests/protocol/wire"
)

// A directory of a million entries is listed whole, and the server keeps nothing
// of it: its memory does not grow with the directory.
func TestHugeDirectory(t *testing.T) {
	needRoot(t)
	count := 1_000_000
	if testing.Short() || raceEnabled {
		count = 200_000
	}
	dir := value(makeDir("million-"))(t)
	mountTmpfs(t, dir)
	d := value(os.Open(dir))(t)
	for i := range count {
		if err := syscall.Mknodat(int(d.Fd()), "f"+strconv.Itoa(i), syscall.S_IFREG|0o644, 0); err != nil {
			t.Fatal(err)
		}
	}
	must(t, d.Close())
	s := startServer(t, dir+" *(ro,insecure,no_root_squash,no_subtree_check)\n")
	c := dial(t, s)
	fh := c.mount(dir)
	c.readdir(fh, 0, most) // whatever is made at first use
	before := s.anonKiB(t)
	seen := make([]bool, count)
	total, cookie := 0, uint64(0)
	for {
		r := c.readdir(fh, cookie, most)
		if r.status != wire.OK || len(r.entries) == 0 && !r.eof {
			t.Fatalf("at %d: status %d, %d entries", cookie, r.status, len(r.entries))
		}
		for _, e := range r.entries {
			cookie = e.Cookie
			if e.Name[0] == '.' {
				continue
			}
			i := value(strconv.Atoi(e.Name[1:]))(t)
			if seen[i] {
				t.Fatalf("%s is listed twice", e.Name)
			}
			seen[i] = true
			total++
		}
		if r.eof {
			break
		}
	}
	if total != count {
		t.Errorf("%d entries, want %d", total, count)
	}
	if grown := s.anonKiB(t) - before; grown > 32<<10 {
		t.Errorf("the server has grown by %d KiB", grown)
	}
}
