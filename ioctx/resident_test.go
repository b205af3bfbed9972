package ioctx

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// evict takes a file out of the page cache, as far as the kernel lets go of it
// (posix_fadvise(2): POSIX_FADV_DONTNEED leaves dirty pages).
func evict(t *testing.T, fd int) {
	t.Helper()
	must(t, unix.Fsync(fd))
	must(t, unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED))
}

// needDisk skips where the temporary directory is in memory, from which nothing
// can be evicted.
func needDisk(t *testing.T, fd int) {
	t.Helper()
	var st unix.Statfs_t
	must(t, unix.Fstatfs(fd, &st))
	if uint32(st.Type) == unix.TMPFS_MAGIC {
		t.Skip("the temporary directory is a tmpfs")
	}
}

// bothWays runs a test with cachestat(2), where there is one, and without.
func bothWays(t *testing.T, f func(t *testing.T)) {
	for _, without := range []bool{false, true} {
		name := "cachestat"
		if without {
			name = "without cachestat"
		}
		t.Run(name, func(t *testing.T) {
			old := noCachestat.Load()
			defer noCachestat.Store(old)
			noCachestat.Store(without)
			f(t)
		})
	}
}

func TestResident(t *testing.T) {
	const size = 1 << 20
	bothWays(t, func(t *testing.T) {
		fd := openFile(t, size)
		needDisk(t, fd)
		if !Resident(fd, 0, size) || !Resident(fd, 5, 10) || !Resident(fd, size-1, 1) {
			t.Error("a file just written is not resident")
		}
		for _, r := range []struct{ off, n int }{{0, size}, {5, 10}, {size - 1, 1}} {
			evict(t, fd) // once more: a look with RWF_NOWAIT starts read-ahead
			if Resident(fd, int64(r.off), r.n) {
				t.Errorf("%d+%d of an evicted file is resident", r.off, r.n)
			}
		}
		evict(t, fd)
		must(t, unix.Fadvise(fd, 0, 0, unix.FADV_RANDOM)) // no read-ahead
		buf := make([]byte, 4096)
		_, err := Read(fd, buf, 512<<10)
		must(t, err)
		if !Resident(fd, 512<<10, 4096) || !Resident(fd, 512<<10+100, 10) {
			t.Error("a page that was read is not resident")
		}
		if noCachestat.Load() {
			return // a look at a page that is not there brings it and its neighbours
		}
		if Resident(fd, 512<<10-4096, 8192) || Resident(fd, 512<<10, 8192) || Resident(fd, 0, size) {
			t.Error("a range with one page of several is resident")
		}
	})
}

// A hole is nowhere, and so in no page cache, until somebody reads it. (A look
// with RWF_NOWAIT reads it, since that takes no disk; so this is for cachestat.)
func TestResidentHole(t *testing.T) {
	if noCachestat.Load() {
		t.Skip("the kernel has no cachestat(2)")
	}
	path := filepath.Join(t.TempDir(), "hole")
	must(t, os.WriteFile(path, nil, 0o644))
	must(t, os.Truncate(path, 8<<20))
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(fd)
	needDisk(t, fd)
	if Resident(fd, 0, 1<<20) {
		t.Error("a hole that nobody read is resident")
	}
	c := Context{Pipes: NewPipes(1)}
	defer c.Pipes.Close()
	must(t, c.Fetch(fd, 0, 1<<20))
	if !Resident(fd, 0, 1<<20) {
		t.Error("a hole is not resident after Fetch")
	}
	if Resident(fd, 6<<20, 1<<20) {
		t.Error("another part of the hole is")
	}
}

// Fetch brings a range in; the pipe comes back empty, and the end of the file is
// no error.
func TestFetch(t *testing.T) {
	const size = 3<<20 + 77
	fd := openFile(t, size)
	needDisk(t, fd)
	c := Context{Pipes: NewPipes(1)}
	defer c.Pipes.Close()
	for _, row := range []struct{ off, n int }{{0, 1}, {1, 2 << 20}, {1<<20 - 1, 1 << 20}, {size - 100, 100}} {
		evict(t, fd)
		must(t, c.Fetch(fd, int64(row.off), row.n))
		if !Resident(fd, int64(row.off), row.n) {
			t.Errorf("%d+%d is not resident after Fetch", row.off, row.n)
		}
	}
	must(t, c.Fetch(fd, size-10, 1<<20))
	must(t, c.Fetch(fd, size+10, 1<<20))
	if c.Pipes.InUse() != 0 || c.Pipes.Discarded.Load() != 0 || c.Pipes.Made.Load() != 1 || c.Fetched.Load() != 6 {
		t.Errorf("%d pipes in use, %d made, %d discarded, %d fetched", c.Pipes.InUse(), c.Pipes.Made.Load(), c.Pipes.Discarded.Load(), c.Fetched.Load())
	}
}

// Without a pipe Fetch says so.
func TestFetchWithoutPipe(t *testing.T) {
	c := Context{Pipes: NewPipes(0)}
	if err := c.Fetch(openFile(t, 100), 0, 100); err == nil {
		t.Error("no error")
	}
}

// Read reads to the end of the file, ReadNow what is in memory.
func TestRead(t *testing.T) {
	const size = 100_000
	fd := openFile(t, size)
	buf := make([]byte, 64<<10)
	for _, row := range []struct{ off, n, want int }{{0, 10, 10}, {1, 64 << 10, 64 << 10}, {size - 5, 100, 5}, {size, 10, 0}} {
		n, err := Read(fd, buf[:row.n], int64(row.off))
		if err != nil || n != row.want || !bytes.Equal(buf[:n], pattern(row.off, n)) {
			t.Errorf("Read %d+%d: %d, %v", row.off, row.n, n, err)
		}
	}
	if n, err := ReadNow(fd, buf[:1000], 5); err != nil || n != 1000 || !bytes.Equal(buf[:n], pattern(5, n)) {
		t.Errorf("ReadNow of what is there: %d, %v", n, err)
	}
	if _, err := Read(-1, buf, 0); err == nil {
		t.Error("Read of no file: no error")
	}
	needDisk(t, fd)
	evict(t, fd)
	if n, err := ReadNow(fd, buf[:1000], 5); err != unix.EAGAIN {
		t.Errorf("ReadNow of what is not there: %d, %v, want EAGAIN", n, err)
	}
}
