package protocol

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sluice/tests/protocol/wire"
)

// mountstat3 (RFC 1813 section 5.1.5).
const (
	mntNoent       = 2
	mntAcces       = 13
	mntNotdir      = 20
	mntNametoolong = 63
)

// Row "MNT": what may be mounted and what the failures are. A failure has no
// body, which client.mnt checks.
func TestMnt(t *testing.T) {
	s := sharedServer(t)
	c := dial(t, s)
	pub := treePath("pub")
	for _, row := range []struct {
		name, path string
		want       uint32
	}{
		{"export", pub, 0},
		{"directory below it", pub + "/dir/sub", 0},
		{"file", pub + "/hello", 0},
		{"with slashes in excess", strings.ReplaceAll(pub, "/", "//") + "/", 0},
		{"missing below an export", pub + "/nothing", mntNoent},
		{"below a file", pub + "/hello/x", mntNotdir},
		{"not exported", "/", mntAcces},
		{"not exported, missing", "/no/such/place", mntAcces},
		{"exported to others", treePath("foreign"), mntAcces},
		{"out of the export", pub + "/../../x", mntAcces},
		{"relative", "pub", mntAcces},
		{"empty", "", mntAcces},
	} {
		t.Run(row.name, func(t *testing.T) {
			status, fh, _ := c.mnt(row.path)
			if status != row.want {
				t.Fatalf("MNT %q: status %d, want %d", row.path, status, row.want)
			}
			if status == 0 && len(fh) > 56 {
				t.Errorf("handle of %d bytes, more than VMware takes", len(fh))
			}
		})
	}
}

// Row "MNT": the path is up to 1024 bytes (MNTPATHLEN); the reply lists flavours,
// AUTH_SYS where nothing else is said.
func TestMntLimits(t *testing.T) {
	s := sharedServer(t)
	c := dial(t, s)
	long := treePath("pub")
	for len(long)+1 < 1024 {
		long += "/" + strings.Repeat("x", min(200, 1024-len(long)-1))
	}
	if status, _, _ := c.mnt(long); status != mntNoent {
		t.Errorf("MNT of a path of %d bytes: status %d, want MNT3ERR_NOENT", len(long), status)
	}
	r := value(c.conn.Call(wire.NewCall(wire.Mount, 3, 1, wire.Enc(nil).Str(long+"x"))))(t)
	if r.Stat != wire.GarbageArgs {
		t.Errorf("MNT of a path of 1025 bytes: %+v, want GARBAGE_ARGS", r)
	}
	name := treePath("pub", strings.Repeat("n", 256))
	if status, _, _ := c.mnt(name); status != mntNametoolong {
		t.Errorf("MNT of a name of 256 bytes: status %d, want MNT3ERR_NAMETOOLONG", status)
	}
	if _, _, flavors := c.mnt(treePath("pub")); !slices.Equal(flavors, []uint32{1}) {
		t.Errorf("flavours %v, want AUTH_SYS alone", flavors)
	}
}

// Row "MNT below a directory the caller cannot enter": the path is resolved as
// root, and then the export is what decides.
func TestMntBelowClosedDirectory(t *testing.T) {
	needRoot(t)
	c := dial(t, sharedServer(t)).as(wire.Sys(owner, owner))
	status, _, _ := c.mnt(treePath("pub/closed/below"))
	if status != 0 {
		t.Errorf("status %d, want 0", status)
	}
}

// A symbolic link in the path leads where the server sees it lead; what it leads
// to must be exported.
func TestMntSymlink(t *testing.T) {
	s := sharedServer(t)
	c := dial(t, s)
	links := value(os.MkdirTemp(treePath("pub"), "links-"))(t)
	t.Cleanup(func() { os.RemoveAll(links) })
	must(t, os.Symlink("../dir", filepath.Join(links, "in")))
	must(t, os.Symlink("/etc", filepath.Join(links, "out")))
	if status, fh, _ := c.mnt(filepath.Join(links, "in")); status != 0 {
		t.Errorf("link to a directory of the export: status %d", status)
	} else if c.attrOf(fh).FileID != c.attrOf(c.mount(treePath("pub/dir"))).FileID {
		t.Error("the link leads to something else")
	}
	if status, _, _ := c.mnt(filepath.Join(links, "out")); status != mntAcces {
		t.Errorf("link out of the export: status %d, want MNT3ERR_ACCES", status)
	}
}

// A directory that can be mounted is the one that LOOKUP finds.
func TestMntHandleIsLookupHandle(t *testing.T) {
	c := dial(t, sharedServer(t))
	found := c.find(c.mount(treePath("pub")), "dir", "sub")
	if mounted := c.mount(treePath("pub/dir/sub")); !slices.Equal(mounted, found) {
		t.Errorf("MNT gives % x, LOOKUP % x", mounted, found)
	}
}

// Version 1 (RFC 1094 appendix A) over TCP and UDP: status 0 with a handle of 32
// bytes, or an error alone. NFSv3 takes the handle cut to its length.
func TestMntV1(t *testing.T) {
	s := sharedServer(t)
	overBoth(t, func(t *testing.T, udp bool) {
		for path, want := range map[string]uint32{treePath("pub"): 0, "/nowhere": mntAcces, treePath("pub/x"): mntNoent} {
			d := ask(t, s, udp, wire.Mount, 1, 1, wire.Enc(nil).Str(path))
			status := d.U32()
			if status != want && !(want == 0 && status != 0) {
				t.Errorf("MNT %s: status %d, want %d", path, status, want)
			}
			if status == 0 && len(d.B) != 32 {
				t.Errorf("MNT %s: %d bytes of handle, want 32", path, len(d.B))
			}
			if status != 0 && d.End() != nil {
				t.Errorf("MNT %s: %v", path, d.End())
			}
		}
	})
}

// mountEntry is what DUMP lists.
type mountEntry struct{ host, dir string }

func dumpMounts(t *testing.T, s *server, udp bool, vers uint32) (list []mountEntry) {
	t.Helper()
	d := ask(t, s, udp, wire.Mount, vers, 2, nil)
	for d.Bool() {
		list = append(list, mountEntry{string(d.Opaque(255)), string(d.Opaque(1024))})
	}
	must(t, d.End())
	return list
}

// Row "DUMP, UMNT, UMNTALL": always a reply, void for the last two, for what
// was never mounted too (RFC 1813 sections 5.2.2 to 5.2.4).
func TestMountList(t *testing.T) {
	s := startServer(t, treePath()+"/pub *(ro,insecure,no_subtree_check)\n")
	must(t, makeTree())
	dir, sub := treePath("pub"), treePath("pub/dir")
	c := dial(t, s)
	overBoth(t, func(t *testing.T, udp bool) {
		for _, vers := range []uint32{1, 3} {
			c.mount(dir)
			c.mount(sub)
			list := dumpMounts(t, s, udp, vers)
			if !slices.Contains(list, mountEntry{"127.0.0.1", dir}) || !slices.Contains(list, mountEntry{"127.0.0.1", sub}) {
				t.Errorf("DUMP: %v, want %s and %s from 127.0.0.1", list, dir, sub)
			}
			for _, path := range []string{dir, dir, "/never/mounted"} {
				d := ask(t, s, udp, wire.Mount, vers, 3, wire.Enc(nil).Str(path))
				must(t, d.End())
			}
			if list := dumpMounts(t, s, udp, vers); !slices.Equal(list, []mountEntry{{"127.0.0.1", sub}}) {
				t.Errorf("DUMP after UMNT: %v, want %s alone", list, sub)
			}
			must(t, ask(t, s, udp, wire.Mount, vers, 4, nil).End())
			if list := dumpMounts(t, s, udp, vers); len(list) != 0 {
				t.Errorf("DUMP after UMNTALL: %v", list)
			}
		}
	})
}

// Row "EXPORT": the real client list (RFC 1813 section 5.2.5); version 1 has
// EXPORTALL besides.
func TestExport(t *testing.T) {
	s := sharedServer(t)
	overBoth(t, func(t *testing.T, udp bool) {
		for _, pv := range [][2]uint32{{3, 5}, {1, 5}, {1, 6}} {
			d := ask(t, s, udp, wire.Mount, pv[0], pv[1], nil)
			got := make(map[string][]string)
			for d.Bool() {
				dir := string(d.Opaque(1024))
				got[dir] = nil
				for d.Bool() {
					got[dir] = append(got[dir], string(d.Opaque(255)))
				}
			}
			must(t, d.End())
			if len(got) != len(exportNames) {
				t.Errorf("EXPORT version %d lists %d directories, want %d", pv[0], len(got), len(exportNames))
			}
			for name, want := range map[string][]string{"pub": {"*"}, "foreign": {"192.0.2.1"}, "hosts": {"127.0.0.0/8", "192.0.2.7"}} {
				if !slices.Equal(got[treePath(name)], want) {
					t.Errorf("EXPORT: clients of %s are %q, want %q", name, got[treePath(name)], want)
				}
			}
		}
	})
}
