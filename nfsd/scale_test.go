package nfsd

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/export"
	"sluice/rpc"
)

// manyExports makes n exported directories and their table.
func manyExports(t testing.TB, n int) *export.Matcher {
	t.Helper()
	base := t.TempDir()
	dirs := make([]string, n)
	for i := range dirs {
		dirs[i] = filepath.Join(base, fmt.Sprintf("d%05d", i))
		must(t, os.Mkdir(dirs[i], 0o755))
	}
	return exporting(t, "ro", dirs...)
}

// Exports cost no descriptor until they are used, and few then.
func TestManyExportsDescriptors(t *testing.T) {
	needRoot(t)
	m := manyExports(t, 2000)
	before := descriptors()
	s := newService(t, t.TempDir(), m)
	const own = 16 // mount watch, and what the test has
	if now := descriptors(); now > before+own {
		t.Errorf("2,000 exports cost %d descriptors", now-before)
	}
	for _, sh := range s.shares.Load().byID {
		if _, err := s.dirs.acquire(sh.vol); err != nil {
			t.Fatal(err)
		}
		s.dirs.release(sh.vol)
	}
	if now := descriptors(); now > before+own+s.dirs.max {
		t.Errorf("2,000 exports, each used, cost %d descriptors", now-before)
	}
}

// A table that comes again finds its volumes as they are; one without them closes
// them.
func TestReloadKeepsVolumes(t *testing.T) {
	needRoot(t)
	m := manyExports(t, 50)
	s := newService(t, t.TempDir(), m)
	first := s.shares.Load().byID
	s.SetExports(m)
	for id, sh := range s.shares.Load().byID {
		if first[id] == nil || first[id].vol != sh.vol {
			t.Fatalf("%s was opened again", sh.path)
		}
	}
	for _, sh := range first {
		_, err := s.dirs.acquire(sh.vol)
		must(t, err)
		s.dirs.release(sh.vol)
		break
	}
	open := descriptors()
	s.SetExports(export.NewMatcher(new(export.Table), nil))
	if now := descriptors(); now != open-1 {
		t.Errorf("%d descriptors after the exports went, %d before", now, open)
	}
}

// What is in use when its export goes is closed when it is given back.
func TestRetireInUse(t *testing.T) {
	needRoot(t)
	s := newService(t, t.TempDir(), manyExports(t, 1))
	var v *volume
	for _, sh := range s.shares.Load().byID {
		v = sh.vol
	}
	dir, err := s.dirs.acquire(v)
	must(t, err)
	s.SetExports(export.NewMatcher(new(export.Table), nil))
	var st unix.Stat_t
	if err := unix.Fstat(dir, &st); err != nil || st.Ino != v.ino {
		t.Fatalf("closed while in use: %v", err)
	}
	s.dirs.release(v)
	if err := unix.Fstat(dir, &st); err != unix.EBADF {
		t.Errorf("not closed when given back: %v", err)
	}
	if _, err := s.dirs.acquire(v); err != unix.ESTALE {
		t.Errorf("opened again: %v", err)
	}
}

func BenchmarkSetExports(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		m := manyExports(b, n)
		b.Run(fmt.Sprintf("first/%d", n), func(b *testing.B) {
			for range b.N {
				b.StopTimer()
				s, err := NewServer(Config{StateDir: b.TempDir(), Log: quiet()})
				must(b, err)
				b.StartTimer()
				s.SetExports(m)
				b.StopTimer()
				s.Close()
				b.StartTimer()
			}
		})
		b.Run(fmt.Sprintf("again/%d", n), func(b *testing.B) {
			s, err := NewServer(Config{StateDir: b.TempDir(), Log: quiet()})
			must(b, err)
			defer s.Close()
			s.SetExports(m)
			b.ResetTimer()
			for range b.N {
				s.SetExports(m)
			}
		})
	}
}

// BenchmarkAdmit is what the exports cost a call: hit, where the connection has
// asked before, and miss, where the table is asked, with 10,000 exports and as
// many clients.
func BenchmarkAdmit(b *testing.B) {
	const n = 10_000
	m := manyExports(b, n)
	s, err := NewServer(Config{StateDir: b.TempDir(), Log: quiet()})
	must(b, err)
	defer s.Close()
	s.SetExports(m)
	w := &worker{srv: s}
	set := s.shares.Load()
	var shares []*share
	for _, sh := range set.byID {
		shares = append(shares, sh)
	}
	peer := func(i int) netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 77, byte(i >> 8), byte(i)}), 700)
	}
	call := func(c *rpc.Call, i int) {
		c.Peer, c.Cred.Flavor, c.Cred.UID = peer(i), rpc.AuthSys, 1000
	}
	b.Run("hit", func(b *testing.B) {
		var c rpc.Call
		c.Conn = new(connState)
		call(&c, 1)
		b.ReportAllocs()
		for range b.N {
			if _, _, st := w.admit(&c, set, shares[0]); st != nfs3OK {
				b.Fatal(st)
			}
		}
	})
	b.Run("miss", func(b *testing.B) {
		var c rpc.Call
		b.ReportAllocs()
		for i := range b.N {
			c.Conn = new(connState)
			call(&c, i)
			if _, _, st := w.admit(&c, set, shares[i%n]); st != nfs3OK {
				b.Fatal(st)
			}
		}
	})
}

// A start with 1,000 exports takes no time to speak of.
func TestManyExportsTime(t *testing.T) {
	needRoot(t)
	if raceEnabled {
		t.Skip("measures time")
	}
	m := manyExports(t, 1000)
	start := time.Now()
	newService(t, t.TempDir(), m)
	if d := time.Since(start); d > 2*time.Second {
		t.Errorf("1,000 exports take %v to open", d)
	}
}
