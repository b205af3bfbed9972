package ioctx

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestMain is a gate at the end: every descriptor that the tests opened is closed
// again. /dev/null, which is kept for the process, is opened before.
func TestMain(m *testing.M) {
	if _, err := devNull(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	if r, w, err := os.Pipe(); err == nil { // the runtime's epoll
		r.Close()
		w.Close()
	}
	before := descriptors()
	code := m.Run()
	for deadline := time.Now().Add(5 * time.Second); descriptors() > before && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	if after := descriptors(); code == 0 && after > before {
		fmt.Printf("ioctx: %d descriptors after the tests, %d before\n", after, before)
		code = 1
	}
	os.Exit(code)
}

func descriptors() int {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(list)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// pattern tells every offset apart from its neighbours.
func pattern(off, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		x := off + i
		b[i] = byte(x ^ x>>8 ^ x>>16)
	}
	return b
}

// openFile makes a file of n bytes and opens it for reading.
func openFile(t testing.TB, n int) int {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(path, pattern(0, n), 0o644))
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	must(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// pathFD opens a new file with O_PATH.
func pathFD(t testing.TB, name string) int {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(path, []byte(name), 0o644))
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	must(t, err)
	return fd
}

// isOpen says whether a descriptor is open.
func isOpen(fd int) bool {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return err == nil
}
