package disk

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"sluice/nfsd/bench/host"
	"sluice/tests/pattern"
)

// file is a file of a pattern, with its handle once a client has looked it up.
type file struct {
	dir, name string
	seed      uint64
	size      int64
	fh        []byte
}

func (f file) path() string { return filepath.Join(f.dir, f.name) }

// makeFile makes a file that is not in the page cache.
func makeFile(t *testing.T, dir, name string, seed uint64, size int64) file {
	t.Helper()
	f := file{dir: dir, name: name, seed: seed, size: size}
	must(t, pattern.WriteFile(f.path(), seed, size))
	f.drop(t)
	return f
}

// drop removes the file from the page cache. Pages of replies that a socket still
// holds stay there a little longer.
func (f file) drop(t *testing.T) {
	t.Helper()
	eventually(t, 10*time.Second, func() error { return host.DropFile(f.path()) })
}

// lookUp fills in the handle.
func (f *file) lookUp(c *client) {
	c.t.Helper()
	f.fh = c.find(f.dir, f.name)
}

// makeDir makes a directory for a test on a disk, which goes with the test.
func makeDir(t *testing.T, on string) string {
	t.Helper()
	dir, err := os.MkdirTemp(on, "test-")
	must(t, err)
	must(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
