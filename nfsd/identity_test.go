package nfsd

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"sluice/export"
	"sluice/rpc"
)

// onThread runs f on an OS thread that ends after it.
func onThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // not unlocked: the thread ends with the goroutine
		f()
	}()
	<-done
}

// threadIDs reads the calling thread's file-system ids and groups from the kernel
// (proc(5): the fourth of Uid and Gid, and Groups).
func threadIDs(t *testing.T) (fsuid, fsgid, groups string) {
	t.Helper()
	b, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		t.Error(err)
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		switch {
		case len(f) == 5 && f[0] == "Uid:":
			fsuid = f[4]
		case len(f) == 5 && f[0] == "Gid:":
			fsgid = f[4]
		case len(f) > 0 && f[0] == "Groups:":
			groups = strings.Join(f[1:], " ")
		}
	}
	return fsuid, fsgid, groups
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}

// become changes the thread that calls it, as the kernel sees it, and no other.
func TestBecome(t *testing.T) {
	needRoot(t)
	s := newService(t, t.TempDir(), exporting(t, "ro", t.TempDir()))
	if !s.Switches() {
		t.Skip("this process may not take on other identities")
	}
	onThread(func() {
		w := s.NewThread().(*worker)
		for _, id := range []*identity{
			s.identities.get(1000, 2000, []uint32{5, 3, 9}),
			s.identities.get(1000, 2000, nil),
			s.identities.get(65534, 65534, []uint32{65534}),
			privileged,
			s.identities.get(1000, 2000, slices.Repeat([]uint32{7}, 16)),
		} {
			if st := w.become(id); st != nfs3OK {
				t.Errorf("become: status %d", st)
			}
			uid, gid, groups := threadIDs(t)
			sorted := slices.Clone(id.groups) // the kernel keeps groups sorted
			slices.Sort(sorted)
			want := strings.Trim(fmt.Sprint(sorted), "[]")
			if uid != fmt.Sprint(id.uid) || gid != fmt.Sprint(id.gid) || groups != want {
				t.Errorf("the thread has ids %s %s, groups %q; want %d %d %q", uid, gid, groups, id.uid, id.gid, want)
			}
		}
	})
	onThread(func() {
		if uid, _, _ := threadIDs(t); uid != "0" {
			t.Errorf("another thread has fsuid %s", uid)
		}
	})
}

// The kernel itself refuses what the identity may not do, and root can again
// after it has gone back.
func TestBecomeIsEnforced(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o755))
	secret := dir + "/secret"
	must(t, os.WriteFile(secret, nil, 0o600))
	s := newService(t, t.TempDir(), exporting(t, "ro", dir))
	onThread(func() {
		w := s.NewThread().(*worker)
		for _, row := range []struct {
			id  *identity
			may bool
		}{{privileged, true}, {s.identities.get(1000, 1000, nil), false}, {privileged, true}} {
			if st := w.become(row.id); st != nfs3OK {
				t.Errorf("become: status %d", st)
			}
			f, err := os.Open(secret)
			if err == nil {
				f.Close()
			}
			if (err == nil) != row.may {
				t.Errorf("uid %d opens a file of mode 0600: %v", row.id.uid, err)
			}
		}
	})
}

// Equal identities are one; the groups that come in are copied.
func TestIdentities(t *testing.T) {
	var table identities
	groups := []uint32{1, 2, 3}
	a := table.get(1, 2, groups)
	if b := table.get(1, 2, []uint32{1, 2, 3}); a != b {
		t.Error("equal identities are two")
	}
	for _, other := range []*identity{table.get(1, 2, nil), table.get(1, 2, []uint32{1, 2}), table.get(1, 2, []uint32{1, 3, 2}), table.get(2, 1, groups)} {
		if other == a {
			t.Errorf("%+v is taken for %+v", other, a)
		}
	}
	groups[0] = 99
	if a.groups[0] != 1 {
		t.Error("an identity changes with its caller's slice")
	}
	if n := testing.AllocsPerRun(100, func() { table.get(1, 2, []uint32{1, 2, 3}) }); n != 0 {
		t.Errorf("%v allocations to find an identity", n)
	}
	for i := range uint32(3 * maxIdentities) {
		table.get(i, 0, nil)
	}
	if len(table.m) > maxIdentities {
		t.Errorf("%d identities are remembered", len(table.m))
	}
}

// identify squashes as the export says, and tells callers apart by all they say.
func TestIdentify(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	s := newService(t, t.TempDir(), exporting(t, "ro", dir))
	w := &worker{srv: s}
	cred := func(uid, gid uint32) *rpc.Cred { return &rpc.Cred{Flavor: rpc.AuthSys, UID: uid, GID: gid} }
	a := &admission{}
	for _, row := range []struct {
		o        export.FlavorOptions
		uid, gid uint32
		want     [2]uint32
	}{
		{export.FlavorOptions{}, 0, 0, [2]uint32{0, 0}},
		{export.FlavorOptions{RootSquash: true, AnonUID: 7, AnonGID: 8}, 0, 5, [2]uint32{7, 5}},
		{export.FlavorOptions{RootSquash: true, AnonUID: 7, AnonGID: 8}, 5, 0, [2]uint32{5, 8}},
		{export.FlavorOptions{AllSquash: true, AnonUID: 7, AnonGID: 8}, 1000, 1000, [2]uint32{7, 8}},
	} {
		a.last.Store(nil)
		for range 2 { // the second time from memory
			id := w.identify(a, &row.o, cred(row.uid, row.gid))
			if id.uid != row.want[0] || id.gid != row.want[1] {
				t.Errorf("%+v: %d:%d becomes %d:%d, want %v", row.o, row.uid, row.gid, id.uid, id.gid, row.want)
			}
		}
	}
	a.last.Store(nil)
	plain := &export.FlavorOptions{}
	first := w.identify(a, plain, cred(1, 1))
	for _, other := range []*rpc.Cred{cred(2, 1), cred(1, 2), {Flavor: rpc.AuthNone, UID: 3, GID: 1}} {
		if w.identify(a, plain, other) == first {
			t.Errorf("%+v is taken for another caller", other)
		}
	}
}
