package nfsd

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/ioctx"
)

// What LOOKUP found is remembered for one directory, one name and one state of
// the directory, and not while a change in the same tick of the clock could hide.
func TestNames(t *testing.T) {
	s := newService(t, t.TempDir(), exporting(t, "ro", t.TempDir()))
	n := &s.names
	dir, other := newObject(nil, unix.S_IFDIR), newObject(nil, unix.S_IFDIR)
	var a attr
	old := unix.NsecToTimespec(time.Now().Add(-time.Hour).UnixNano())
	a.Mtim, a.Ctim = old, old
	child, _ := ioctx.MakeKey([]byte("the child's handle"))
	n.put(dir, &a, []byte("name"), &child)
	if got := n.get(dir, &a, []byte("name")); got == nil || *got != child {
		t.Fatalf("got %v", got)
	}
	changed := a
	changed.Mtim.Nsec ^= 1
	meta := a
	meta.Ctim.Nsec ^= 1
	for what, got := range map[string]*ioctx.Key{
		"another name":              n.get(dir, &a, []byte("nam")),
		"another directory":         n.get(other, &a, []byte("name")),
		"after a change of entries": n.get(dir, &changed, []byte("name")),
		"after a change of ctime":   n.get(dir, &meta, []byte("name")),
	} {
		if got != nil {
			t.Errorf("%s: still known", what)
		}
	}
	for _, fresh := range []func(*attr){func(a *attr) { a.Mtim = unix.NsecToTimespec(time.Now().UnixNano()) }, func(a *attr) { a.Ctim = unix.NsecToTimespec(time.Now().UnixNano()) }} {
		b := a
		fresh(&b)
		n.put(dir, &b, []byte("new"), &child)
		if n.get(dir, &b, []byte("new")) != nil {
			t.Error("a name in a directory that has just changed is remembered")
		}
	}
}

// A verdict holds for one caller and one ctime, and is not kept while the ctime
// is so young that a change could have the same.
func TestVerdicts(t *testing.T) {
	o := newObject(nil, unix.S_IFREG)
	id, other := &identity{uid: 1}, &identity{uid: 1}
	old := unix.NsecToTimespec(time.Now().Add(-time.Hour).UnixNano())
	young := unix.NsecToTimespec(time.Now().UnixNano())
	o.allow(id, old)
	if !o.may(id, old) {
		t.Error("a verdict is forgotten at once")
	}
	if o.may(other, old) || o.may(id, young) {
		t.Error("a verdict holds for another caller or another ctime")
	}
	o.allow(id, young)
	if o.may(id, young) {
		t.Error("a verdict for a ctime of just now is kept")
	}
}

// The list that DUMP shows is bounded; the oldest entries go.
func TestMountListBounded(t *testing.T) {
	var l mountList
	host := netip.MustParseAddr("192.0.2.1")
	for i := range maxMounts + 10 {
		l.add(host, fmt.Sprint("/", i))
		l.add(host, fmt.Sprint("/", i)) // once more adds nothing
	}
	list := l.list()
	if len(list) != maxMounts || list[0].path != "/10" || list[maxMounts-1].path != fmt.Sprint("/", maxMounts+9) {
		t.Errorf("%d entries, from %v to %v", len(list), list[0], list[len(list)-1])
	}
	other := netip.MustParseAddr("192.0.2.2")
	l.add(other, "/x")
	l.remove(other, "/10")
	l.removeAll(host)
	if got := l.list(); !slices.Equal(got, []mountEntry{{other, "/x"}}) {
		t.Errorf("left: %v", got)
	}
}
