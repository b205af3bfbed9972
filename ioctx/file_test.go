package ioctx

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// keyOf makes a key; keys that differ in the last bytes go to different shards,
// those of sameShard to one.
func keyOf(t testing.TB, name string) *Key {
	t.Helper()
	k, ok := MakeKey([]byte(name))
	if !ok {
		t.Fatalf("no key for %q", name)
	}
	return &k
}

func sameShard(t testing.TB, i int) *Key {
	return keyOf(t, string(binary.BigEndian.AppendUint32(nil, uint32(i)))+"the tail")
}

func add(t testing.TB, files *Files, k *Key) *File {
	t.Helper()
	f, err := files.Add(k, pathFD(t, "file"), nil)
	must(t, err)
	return f
}

func TestMakeKey(t *testing.T) {
	for _, n := range []int{0, 65, 1000} {
		if _, ok := MakeKey(make([]byte, n)); ok {
			t.Errorf("a key from %d bytes", n)
		}
	}
	for n := 1; n <= 64; n++ {
		h := pattern(3, n)
		k, ok := MakeKey(h)
		if !ok || string(k.Bytes()) != string(h) {
			t.Errorf("%d bytes come back as % x", n, k.Bytes())
		}
	}
	a, _ := MakeKey([]byte{1})
	b, _ := MakeKey([]byte{1, 0})
	if a == b {
		t.Error("handles that differ in trailing zeros have one key")
	}
}

// The first to add a file is it; who comes second gets the same one, and his
// descriptor is closed.
func TestFilesAddTwice(t *testing.T) {
	files := NewFiles(1000)
	defer files.Close()
	k := keyOf(t, "a")
	if files.Get(k) != nil {
		t.Fatal("found before it was added")
	}
	first, err := files.Add(k, pathFD(t, "one"), "value")
	must(t, err)
	fd := pathFD(t, "two")
	second, err := files.Add(k, fd, "other")
	must(t, err)
	if second != first || second.Value != "value" || isOpen(fd) {
		t.Errorf("a second file of the key; its descriptor is open: %v", isOpen(fd))
	}
	third := files.Get(k)
	if third != first || files.Len() != 1 || files.Opened.Load() != 1 {
		t.Errorf("Get: the same %v, %d files, %d opened", third == first, files.Len(), files.Opened.Load())
	}
	if string(first.Handle()) != "a" {
		t.Errorf("handle %q", first.Handle())
	}
	for range 3 {
		first.Release()
	}
	defer func() {
		if recover() == nil {
			t.Error("a release too many goes unnoticed")
		}
		first.refs.Store(0)
	}()
	first.Release()
}

// Data is opened once, at first use, by whoever comes first.
func TestFileData(t *testing.T) {
	files := NewFiles(1000)
	defer files.Close()
	f := add(t, files, keyOf(t, "a"))
	defer f.Release()
	var fds [8]int
	var all sync.WaitGroup
	for i := range fds {
		all.Go(func() { fds[i], _ = f.Data() })
	}
	all.Wait()
	for _, fd := range fds {
		if fd != fds[0] || fd < 0 {
			t.Fatalf("descriptors %v", fds)
		}
	}
	buf := make([]byte, 10)
	if n, err := Read(fds[0], buf, 0); err != nil || string(buf[:n]) != "file" {
		t.Errorf("%q, %v", buf[:n], err)
	}
}

// A full shard gives up what nobody holds, and refuses when all are held; the
// descriptor is the caller's then.
func TestFilesEviction(t *testing.T) {
	files := NewFiles(4 * fileShards)
	defer files.Close()
	var held []*File
	for i := range 4 {
		held = append(held, add(t, files, sameShard(t, i)))
	}
	fd := pathFD(t, "more")
	if _, err := files.Add(sameShard(t, 9), fd, nil); !errors.Is(err, ErrTooManyFiles) || !isOpen(fd) {
		t.Fatalf("with every file held: %v, descriptor open %v", err, isOpen(fd))
	}
	victim := held[2].Path()
	held[2].Release()
	f, err := files.Add(sameShard(t, 9), fd, nil)
	must(t, err)
	if isOpen(victim) || files.Get(sameShard(t, 2)) != nil || files.Evicted.Load() != 1 {
		t.Errorf("the free file: open %v, %d evicted", isOpen(victim), files.Evicted.Load())
	}
	f.Release()
	for i, h := range held {
		if i != 2 {
			if !isOpen(h.Path()) {
				t.Errorf("held file %d was closed", i)
			}
			h.Release()
		}
	}
}

// The oldest goes first.
func TestFilesEvictOldest(t *testing.T) {
	files := NewFiles(4 * fileShards)
	defer files.Close()
	for i := range 4 {
		add(t, files, sameShard(t, i)).Release()
	}
	files.now.Add(1)
	for _, i := range []int{0, 1, 3} {
		files.Get(sameShard(t, i)).Release()
	}
	add(t, files, sameShard(t, 9)).Release()
	if files.Get(sameShard(t, 2)) != nil {
		t.Error("another file than the oldest was given up")
	}
}

// Files that nobody has used for sweepAge sweeps are closed, those in use stay.
func TestFilesSweep(t *testing.T) {
	files := NewFiles(1000)
	defer files.Close()
	idle, used, held := add(t, files, keyOf(t, "idle")), add(t, files, keyOf(t, "used")), add(t, files, keyOf(t, "held"))
	idle.Release()
	used.Release()
	for range sweepAge + 2 {
		files.Get(keyOf(t, "used")).Release()
		files.sweep()
	}
	if isOpen(idle.Path()) || !isOpen(used.Path()) || !isOpen(held.Path()) {
		t.Errorf("open: idle %v, used %v, held %v; want only the last two", isOpen(idle.Path()), isOpen(used.Path()), isOpen(held.Path()))
	}
	held.Release()
}

// A dropped file is not found any more; it is closed once it is released.
func TestFilesDrop(t *testing.T) {
	files := NewFiles(1000)
	defer files.Close()
	k := keyOf(t, "a")
	f := add(t, files, k)
	files.Drop(f)
	files.Drop(f) // once more does nothing
	files.sweep()
	if files.Get(k) != nil || !isOpen(f.Path()) || files.Len() != 1 {
		t.Errorf("dropped and held: open %v, %d files", isOpen(f.Path()), files.Len())
	}
	next := add(t, files, k)
	if next == f {
		t.Error("the dropped file comes back")
	}
	files.Drop(f) // not the one that is there now
	if again := files.Get(k); again != next {
		t.Error("Drop of the old file dropped the new one")
	} else {
		again.Release()
	}
	f.Release()
	files.sweep()
	if isOpen(f.Path()) || !isOpen(next.Path()) {
		t.Errorf("released: the old one open %v, the new one %v", isOpen(f.Path()), isOpen(next.Path()))
	}
	next.Release()
}

func TestFilesDropIf(t *testing.T) {
	files := NewFiles(1000)
	defer files.Close()
	for i := range 20 {
		f, err := files.Add(keyOf(t, fmt.Sprint("file", i)), pathFD(t, "file"), i%2 == 0)
		must(t, err)
		f.Release()
	}
	files.DropIf(func(f *File) bool { return f.Value.(bool) })
	files.sweep()
	if files.Len() != 10 {
		t.Errorf("%d files are left, want 10", files.Len())
	}
	for i := range 20 {
		f := files.Get(keyOf(t, fmt.Sprint("file", i)))
		if (f != nil) != (i%2 == 1) {
			t.Errorf("file %d is there: %v", i, f != nil)
		}
		if f != nil {
			f.Release()
		}
	}
}

// Many threads get, add, drop and sweep: who holds a file can use it, and the end
// leaves nothing open (the gate in TestMain).
func TestFilesConcurrent(t *testing.T) {
	files := NewFiles(2 * fileShards)
	defer files.Close()
	source := pathFD(t, "file")
	defer unix.Close(source)
	var failed atomic.Bool
	var all sync.WaitGroup
	for w := range 8 {
		all.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(w), 5))
			for range 3000 {
				if err := useOne(files, source, rnd); err != nil && !failed.Swap(true) {
					t.Error(err)
				}
			}
		})
	}
	for range 20 {
		files.sweep()
	}
	all.Wait()
}

// useOne takes a random file, reads it, and lets it go, or drops it.
func useOne(files *Files, source int, rnd *rand.Rand) error {
	k, _ := MakeKey(fmt.Appendf(nil, "file%d", rnd.IntN(300)))
	f := files.Get(&k)
	if f == nil {
		fd, err := unix.FcntlInt(uintptr(source), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return err
		}
		if f, err = files.Add(&k, fd, nil); err != nil {
			unix.Close(fd)
			return nil // full
		}
	}
	defer f.Release()
	fd, err := f.Data()
	if err != nil {
		return err
	}
	var buf [10]byte
	if n, err := Read(fd, buf[:], 0); err != nil || string(buf[:n]) != "file" {
		return fmt.Errorf("a held file reads as %q, %v", buf[:n], err)
	}
	if rnd.IntN(50) == 0 {
		files.Drop(f)
	}
	return nil
}

// Finding a file allocates nothing.
func TestFilesGetAllocates(t *testing.T) {
	files := NewFiles(1000)
	defer files.Close()
	k := keyOf(t, "a")
	add(t, files, k).Release()
	if n := testing.AllocsPerRun(1000, func() { files.Get(k).Release() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
