package ioctx

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

func newContext(t *testing.T, cfg Config) *Context {
	cfg.MaxFiles, cfg.MaxPipes, cfg.Log = 4096, 4, quiet
	c := New(cfg)
	t.Cleanup(c.Close)
	return c
}

// openCold makes a file on a disk, of which nothing is in the page cache.
func openCold(t *testing.T, c *Context, size int64) *Range {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "ioctx")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "f")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	buf := make([]byte, mib)
	for off := int64(0); off < size; off += mib {
		if _, err := f.Write(buf[:min(mib, size-off)]); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	key, _ := MakeKey([]byte(path)[:min(len(path), 64)])
	file, err := c.Files.Add(&key, fd, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(file.Release)
	data, err := file.Data()
	if err != nil {
		t.Fatal(err)
	}
	if file.InMemory() {
		t.Skip("SKIPPED: /var/tmp is in memory: there is nothing to wait for")
	}
	var st unix.Stat_t
	if err := unix.Fstat(data, &st); err != nil {
		t.Fatal(err)
	}
	return &Range{File: file, FD: data, Dev: st.Dev, Size: size}
}

// readAll reads the whole file in order, n bytes at a time, and waits where it must.
func readAll(t *testing.T, c *Context, r Range, n int) (waits int) {
	t.Helper()
	return readPart(t, c, r, r.Size, n)
}

// readPart reads from r.Off up to end.
func readPart(t *testing.T, c *Context, r Range, end int64, n int) (waits int) {
	t.Helper()
	for ; r.Off < end; r.Off += int64(n) {
		r.N = int(min(int64(n), r.Size-r.Off))
		if c.Have(&r) {
			continue
		}
		waits++
		done := make(chan bool, 1)
		if parked, gaveUp := c.Miss(&r, func() Waiter { return waiterFunc(func(g bool) { done <- g }) }); !parked || gaveUp {
			t.Fatalf("at %d: parked %v, gave up %v", r.Off, parked, gaveUp)
		}
		select {
		case gaveUp := <-done:
			if gaveUp || !Resident(r.FD, r.Off, r.N) {
				t.Fatalf("at %d: gave up %v, and it is not there", r.Off, gaveUp)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("at %d: no answer", r.Off)
		}
	}
	return waits
}

var configs = map[string]Config{
	"shared":  {},
	"private": {Private: 3},
	"threads": {NoRing: true},
	"off":     {ReadAhead: ReadAheadOff},
	"2M":      {ReadAhead: 2 << 20},
}

func TestContextReads(t *testing.T) {
	for name, cfg := range configs {
		t.Run(name, func(t *testing.T) {
			c := newContext(t, cfg)
			const size = 24<<20 + 4567
			r := openCold(t, c, size)
			waits := readAll(t, c, *r, 64<<10)
			s := c.Stats()
			if uint64(waits) != s.Total.Waits {
				t.Errorf("%d waits counted, %d seen", s.Total.Waits, waits)
			}
			if s.Total.Bytes < size || s.Total.Bytes > size+8<<20 {
				t.Errorf("%d bytes read for a file of %d", s.Total.Bytes, size)
			}
			if name == "off" {
				if s.Total.Ahead != 0 || waits != size/(64<<10)+1 {
					t.Errorf("%d bytes read ahead, %d waits", s.Total.Ahead, waits)
				}
				return
			}
			if s.Total.Ahead < size*9/10 || s.Total.Hits < size/(64<<10)/2 || s.Total.Requests > 100 {
				t.Errorf("%+v: want nearly all read ahead, in few requests", s.Total)
			}
			if s.Total.InFlight != 0 || s.Total.Failed != 0 {
				t.Errorf("%+v", s.Total)
			}
		})
	}
}

// All that a shared context reads with has one kernel io_context; of private ones,
// each has its own. kcmp(2) says so.
func TestKernelContexts(t *testing.T) {
	for name, want := range map[string]int{"shared": 1, "private": 3} {
		t.Run(name, func(t *testing.T) {
			c := newContext(t, configs[name])
			r := openCold(t, c, 8<<20)
			for r.Lane = range c.Lanes() { // so that each has a worker
				cold(t, r.FD)
				readAll(t, c, *r, 128<<10)
			}
			s := c.Stats()
			if s.Contexts == -1 {
				t.Skip("SKIPPED: kcmp(2) is not to be had")
			}
			if s.Mode != name || s.Submitters != want || s.Contexts != want || s.Workers < want {
				t.Errorf("%s: %d submitters, %d workers, %d contexts; want %d contexts and a worker for each",
					s.Mode, s.Submitters, s.Workers, s.Contexts, want)
			}
		})
	}
}

func cold(t *testing.T, fd int) {
	t.Helper()
	if err := unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
}

// What was read ahead and is gone again shrinks the window.
func TestLoss(t *testing.T) {
	c := newContext(t, Config{})
	r := openCold(t, c, 64<<20)
	readPart(t, c, *r, 16<<20, 128<<10)
	// Wait for what is still on its way before throwing it all out.
	for deadline := time.Now().Add(10 * time.Second); c.Stats().Total.InFlight > 0 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	cold(t, r.FD)
	r.Off = 16 << 20
	readPart(t, c, *r, 32<<20, 128<<10)
	if s := c.Stats().Total; s.Lost == 0 {
		t.Errorf("%+v: nothing counted as lost", s)
	}
}

// A file that shrinks under read-ahead keeps nobody waiting.
func TestFileShrinks(t *testing.T) {
	c := newContext(t, Config{})
	r := openCold(t, c, 16<<20)
	if err := unix.Truncate(readLink(t, r.FD), 1<<20); err != nil {
		t.Fatal(err)
	}
	done := make(chan bool, 1)
	r.Off, r.N = 8<<20, 128<<10 // as the size was when the call came
	parked, _ := c.Miss(r, func() Waiter { return waiterFunc(func(g bool) { done <- g }) })
	if !parked {
		t.Fatal("not parked")
	}
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("waits for bytes that are not there")
	}
}

func readLink(t *testing.T, fd int) string {
	t.Helper()
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Whoever asks begins no I/O: the kernel accounts what is read from the disk to
// the task that began it (read_bytes in /proc/TID/io, proc_pid_io(5)).
func TestAskersReadNothing(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if readBytes(t) < 0 {
		t.Skip("SKIPPED: the kernel does not account I/O to tasks")
	}
	c := newContext(t, Config{})
	for _, n := range []int{4 << 10, 16 << 10, 256 << 10} {
		r := openCold(t, c, 8<<20)
		before := readBytes(t)
		buf := make([]byte, n)
		for r.Off = 0; r.Off < r.Size; r.Off += int64(n) {
			r.N = n
			for {
				if _, err := c.ReadNow(r, buf); err == nil {
					break
				} else if err != unix.EAGAIN {
					t.Fatal(err)
				}
				done := make(chan bool, 1)
				c.Miss(r, func() Waiter { return waiterFunc(func(g bool) { done <- g }) })
				<-done
			}
		}
		if got := readBytes(t) - before; got != 0 {
			t.Errorf("READs of %d: the asking thread read %d bytes from the disk", n, got)
		}
	}
	if s := c.Stats(); s.Total.Bytes < 24<<20 {
		t.Errorf("%d bytes read", s.Total.Bytes)
	}
}

// readBytes is what this thread has read from disks, or -1.
func readBytes(t *testing.T) int64 {
	b, err := os.ReadFile("/proc/thread-self/io")
	if err != nil {
		return -1
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "read_bytes: "); ok {
			n, err := strconv.ParseInt(v, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	return -1
}
