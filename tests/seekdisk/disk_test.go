package seekdisk

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/tests/pattern"
	"sluice/tests/private"
)

// startDisk starts a quick disk with a file of 8 MiB of pattern 1 on it.
func startDisk(t *testing.T) (d *Disk, file string) {
	t.Helper()
	if !private.Inside() {
		t.Skip("needs root: FUSE, loop devices, mounts")
	}
	d, err := Start(t.TempDir(), Options{Size: 64 << 20, Rate: 1 << 34, Seek: ms})
	must(t, err)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	file = filepath.Join(d.Dir(), "file")
	must(t, pattern.WriteFile(file, 1, 8<<20))
	must(t, d.Remount())
	must(t, d.Reset())
	return d, file
}

func stats(t *testing.T, d *Disk) Stats {
	t.Helper()
	s, err := d.Stats()
	must(t, err)
	return s
}

func queueAttr(t *testing.T, d *Disk, attr string) string {
	b, err := os.ReadFile(filepath.Join("/sys/block", d.Name(), "queue", attr))
	must(t, err)
	return string(b)
}

// What is written comes back after a remount, from the disk; the block device
// looks like a disk, and its store keeps no page of the file whole.
func TestDisk(t *testing.T) {
	d, file := startDisk(t)
	for attr, want := range map[string]string{"rotational": "1", "scheduler": "[mq-deadline]", "read_ahead_kb": "128"} {
		if got := strings.Fields(queueAttr(t, d, attr)); !slices.Contains(got, want) {
			t.Errorf("%s: %q, want %q", attr, got, want)
		}
	}
	b, err := os.ReadFile(file)
	must(t, err)
	must(t, pattern.Check(b, 1, 0))
	s := stats(t, d)
	if len(b) != 8<<20 || s.Bytes < 8<<20 || s.Bytes > 9<<20 {
		t.Errorf("read %d bytes, the disk %d", len(b), s.Bytes)
	}
	if s.Seeks == 0 || s.Seeks > 20 || s.Requests < 8 {
		t.Errorf("a file read in order: %+v", s)
	}
}

// The control file can be read in parts of any length.
func TestDiskControlInParts(t *testing.T) {
	d, _ := startDisk(t)
	f, err := os.Open(d.Control())
	must(t, err)
	defer f.Close()
	var text []byte
	for b := make([]byte, 7); ; {
		n, err := f.Read(b)
		text = append(text, b[:n]...)
		if err == io.EOF {
			break
		}
		must(t, err)
	}
	if !strings.HasPrefix(string(text), `{"requests":`) || !strings.HasSuffix(string(text), "}\n") {
		t.Errorf("%q", text)
	}
}

// Reading pages in random order seeks for each, through the whole stack.
func TestDiskSeeks(t *testing.T) {
	d, file := startDisk(t)
	f, err := os.Open(file)
	must(t, err)
	defer f.Close()
	must(t, unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_RANDOM))
	must(t, d.Reset())
	var b [pageSize]byte
	for i := range int64(50) {
		off := i * 37 % 64 * (128 << 10)
		_, err := f.ReadAt(b[:], off)
		must(t, err)
		must(t, pattern.Check(b[:], 1, off))
	}
	if s := stats(t, d); s.Seeks < 50 || s.Seeks > 60 {
		t.Errorf("50 scattered reads: %+v", s)
	}
}

func TestDiskFail(t *testing.T) {
	d, file := startDisk(t)
	must(t, d.FailFile(file, 4<<20+5, 10))
	f, err := os.Open(file)
	must(t, err)
	defer f.Close()
	must(t, unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_RANDOM))
	b := make([]byte, 8192)
	if _, err := f.ReadAt(b, 4<<20); !errors.Is(err, syscall.EIO) {
		t.Errorf("in the bad range: %v, want EIO", err)
	}
	_, err = f.ReadAt(b, 4<<20+pageSize)
	must(t, err)
	must(t, pattern.Check(b, 1, 4<<20+pageSize))
	must(t, os.WriteFile(d.Control(), []byte("heal\n"), 0))
	_, err = f.ReadAt(b, 4<<20)
	must(t, err)
	must(t, pattern.Check(b, 1, 4<<20))
}

// A stalled disk keeps a reader waiting, and can be closed all the same.
func TestDiskCloseStalled(t *testing.T) {
	d, file := startDisk(t)
	f, err := os.Open(file)
	must(t, err)
	must(t, d.Stall(0))
	done := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, f)
		f.Close()
		done <- err
	}()
	awaitWaiting(t, d)
	select {
	case err := <-done:
		t.Fatalf("a read of a stalled disk ended: %v", err)
	default:
	}
	must(t, d.Close())
	must(t, <-done)
}

func awaitWaiting(t *testing.T, d *Disk) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); stats(t, d).Waiting == 0; time.Sleep(ms) {
		if time.Now().After(deadline) {
			t.Fatal("nothing waits for the disk")
		}
	}
}

// When the drive's process dies, who waits for the disk gets an error.
func TestDiskDies(t *testing.T) {
	d, file := startDisk(t)
	f, err := os.Open(file)
	must(t, err)
	defer f.Close()
	must(t, d.Stall(0))
	done := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, f)
		done <- err
	}()
	awaitWaiting(t, d)
	d.drive.kill()
	if err := <-done; !errors.Is(err, syscall.EIO) {
		t.Errorf("%v, want EIO", err)
	}
	f.Close()
	if d.Close() == nil {
		t.Error("Close does not say that the drive was killed")
	}
}
