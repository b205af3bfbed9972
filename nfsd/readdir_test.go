package nfsd

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// appendDirent writes a struct linux_dirent64 as the kernel does: aligned to 8
// bytes, the name ending in NUL (getdents64(2)).
func appendDirent(b []byte, d dirent) []byte {
	n := (19 + len(d.name) + 1 + 7) &^ 7
	at := len(b)
	b = append(b, make([]byte, n)...)
	ne := binary.NativeEndian
	ne.PutUint64(b[at:], d.ino)
	ne.PutUint64(b[at+8:], d.off)
	ne.PutUint16(b[at+16:], uint16(n))
	b[at+18] = d.typ
	copy(b[at+19:], d.name)
	return b
}

// What the kernel lists is what os.ReadDir lists, with inodes and types.
func TestNextDirent(t *testing.T) {
	dir := t.TempDir()
	want := map[string]uint8{".": unix.DT_DIR, "..": unix.DT_DIR}
	for i := range 200 {
		name := strconv.Itoa(i) + string(bytes.Repeat([]byte{'x'}, i%200))
		must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
		want[name] = unix.DT_REG
	}
	must(t, os.Mkdir(filepath.Join(dir, "sub"), 0o755))
	want["sub"] = unix.DT_DIR
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(fd)
	buf := make([]byte, 4096)
	seen := make(map[string]bool)
	for {
		n, err := getdents(fd, buf)
		must(t, err)
		if n == 0 {
			break
		}
		for b := buf[:n]; len(b) > 0; {
			var d dirent
			d, b = nextDirent(b)
			name := string(d.name)
			if typ, ok := want[name]; !ok || d.typ != typ && d.typ != unix.DT_UNKNOWN || seen[name] || d.off == 0 {
				t.Fatalf("%q: type %d, cookie %d, seen before %v", name, d.typ, d.off, seen[name])
			}
			seen[name] = true
			var st unix.Stat_t
			must(t, unix.Lstat(filepath.Join(dir, name), &st))
			if name != ".." && st.Ino != d.ino {
				t.Errorf("%q: inode %d, want %d", name, d.ino, st.Ino)
			}
		}
	}
	if len(seen) != len(want) {
		t.Errorf("%d entries, want %d", len(seen), len(want))
	}
}

// Whatever the names are, entries come out as they went in.
func FuzzNextDirent(f *testing.F) {
	f.Add([]byte("a\x00.\x00..\x00long name"), uint64(7), uint8(4))
	f.Add([]byte("\xff\xfe"), ^uint64(0), uint8(0))
	f.Fuzz(func(t *testing.T, text []byte, ino uint64, typ uint8) {
		var want []dirent
		var b []byte
		for i, name := range bytes.Split(text, []byte{0}) {
			if len(name) > 1000 {
				return
			}
			d := dirent{ino: ino + uint64(i), off: ino ^ uint64(i), typ: typ, name: name}
			want = append(want, d)
			b = appendDirent(b, d)
		}
		for i, w := range want {
			var got dirent
			got, b = nextDirent(b)
			if got.ino != w.ino || got.off != w.off || got.typ != w.typ || !slices.Equal(got.name, w.name) {
				t.Fatalf("entry %d: %+v, want %+v", i, got, w)
			}
		}
		if len(b) != 0 {
			t.Fatalf("%d bytes are left", len(b))
		}
	})
}
