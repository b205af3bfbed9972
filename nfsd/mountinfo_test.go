package nfsd

import (
	"maps"
	"slices"
	"testing"
)

// The first line is the example of proc_pid_mountinfo(5).
const mountinfo = `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
20 1 8:1 / / rw - ext4 /dev/sda1 rw
37 20 0:40 / /a\040b\011c\012d\134e\043 rw - tmpfs x rw
38 20 0:41 / /srv rw shared:1 - tmpfs x rw
39 38 0:42 /sub /srv rw - tmpfs x rw
40 20 0:43
x 20 0:43 / /bad rw - tmpfs x rw

`

func TestParseMounts(t *testing.T) {
	got := parseMounts([]byte(mountinfo))
	for path, want := range map[string]mount{
		"/mnt2":          {36, 35, "/mnt1", "/mnt2", "ext3"},
		"/":              {20, 1, "/", "/", "ext4"},
		"/a b\tc\nd\\e#": {37, 20, "/", "/a b\tc\nd\\e#", "tmpfs"},
		"/srv":           {39, 38, "/sub", "/srv", "tmpfs"}, // the one on top
	} {
		if m := got.byPath[path]; m == nil || *m != want {
			t.Errorf("%q: %+v, want %+v", path, m, want)
		}
	}
	if len(got.byPath) != 4 || len(got.byID) != 5 {
		t.Errorf("%d paths, %d mounts; want 4 and 5", len(got.byPath), len(got.byID))
	}
	if got.byID[37].whole() != true || got.byID[39].whole() || (*mount)(nil).whole() {
		t.Error("whole is wrong")
	}
}

func TestMountsChangedSince(t *testing.T) {
	old := parseMounts([]byte("1 0 8:1 / / rw\n2 1 0:1 / /same rw\n3 1 0:2 / /gone rw\n4 1 0:3 / /other rw\n"))
	now := parseMounts([]byte("1 0 8:1 / / rw\n2 1 0:1 / /same rw\n5 1 0:3 / /other rw\n6 1 0:4 / /new rw\n"))
	changed := now.changedSince(old)
	if got := slices.Sorted(maps.Keys(changed)); !slices.Equal(got, []string{"/gone", "/new", "/other"}) {
		t.Errorf("changed: %v", got)
	}
	for path, want := range map[string]bool{"/new": true, "/new/a/b": true, "/newer": false, "/": false, "/same/x": false, "relative": false} {
		if affects(changed, path) != want {
			t.Errorf("%s: want %v", path, want)
		}
	}
}

func FuzzParseMounts(f *testing.F) {
	f.Add([]byte(mountinfo))
	f.Fuzz(func(t *testing.T, b []byte) { parseMounts(b) })
}
