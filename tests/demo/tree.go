package main

import (
	"bufio"
	"context"
	crand "crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const bigSize = 1 << 30

// tree is the directory that is served and the file in it that is read.
type tree struct {
	dir  string
	file string // relative to dir
	size int64
	sum  string // SHA-256 of the file, in hexadecimal
}

// openTree looks at dir, or makes a directory of its own if dir is empty.
func openTree(ctx context.Context, dir string) (*tree, error) {
	if dir == "" {
		dir = filepath.Join(os.TempDir(), "sluice-demo")
		if err := makeTree(ctx, dir); err != nil {
			return nil, err
		}
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	t := &tree{dir: dir}
	if err := t.findLargest(); err != nil {
		return nil, err
	}
	fmt.Printf("  %s (%d MiB)\n", filepath.Join(t.dir, t.file), t.size>>20)
	t.sum, err = sum(ctx, filepath.Join(t.dir, t.file))
	if err != nil {
		return nil, err
	}
	fmt.Printf("  SHA-256 %s\n", t.sum)
	return t, nil
}

// makeTree fills dir unless an earlier run did.
func makeTree(ctx context.Context, dir string) error {
	if err := os.MkdirAll(filepath.Join(dir, "letters"), 0o755); err != nil {
		return err
	}
	small := map[string]string{
		"hello.txt":                   "Hello from the server.\n",
		"letters/à la carte.txt":      "A name with spaces and an accent.\n",
		"letters/-n \"quoted\" *.txt": "A name that shell scripts dread.\n",
	}
	for name, text := range small {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	if err := os.Symlink("hello.txt", filepath.Join(dir, "link")); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	big := filepath.Join(dir, "random.bin")
	if info, err := os.Stat(big); err == nil && info.Size() == bigSize {
		return nil
	}
	fmt.Printf("  writing %s, %d MiB of random data, once\n", big, bigSize>>20)
	return writeRandom(ctx, big, bigSize)
}

// writeRandom writes the file under another name first, so that an
// interrupted run leaves none that looks complete.
func writeRandom(ctx context.Context, name string, size int64) error {
	var seed [32]byte
	crand.Read(seed[:])
	tmp := name + ".tmp"
	f, err := os.Create(tmp)
	if err != nil {
		return err
	}
	defer os.Remove(tmp)
	w := bufio.NewWriterSize(f, 1<<20)
	_, err = io.CopyN(w, readerWithContext{ctx, rand.NewChaCha8(seed)}, size)
	if err := errors.Join(err, w.Flush(), f.Close()); err != nil {
		return err
	}
	return os.Rename(tmp, name)
}

// findLargest picks the file to read.
func (t *tree) findLargest() error {
	err := filepath.WalkDir(t.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Size() > t.size {
			t.size = info.Size()
			t.file, err = filepath.Rel(t.dir, path)
		}
		return err
	})
	if err == nil && t.file == "" {
		err = fmt.Errorf("%s: no file with data in it", t.dir)
	}
	return err
}

// sum returns a file's SHA-256.
func sum(ctx context.Context, name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.CopyBuffer(h, readerWithContext{ctx, f}, make([]byte, 1<<20)); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// dropCache evicts the file from the page cache and says how much of it is
// still there. Only clean pages can be dropped, so it syncs first.
func (t *tree) dropCache() (string, error) {
	f, err := os.Open(filepath.Join(t.dir, t.file))
	if err != nil {
		return "", err
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return "", err
	}
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return "", fmt.Errorf("fadvise: %w", err)
	}
	var st unix.Cachestat_t
	switch err := unix.Cachestat(uint(f.Fd()), &unix.CachestatRange{}, &st, 0); {
	case errors.Is(err, unix.ENOSYS): // before Linux 6.5
		return "an unknown part", nil
	case err != nil:
		return "", fmt.Errorf("cachestat: %w", err)
	}
	return fmt.Sprintf("%d of %d MiB", int(st.Cache)*os.Getpagesize()>>20, t.size>>20), nil
}

// readerWithContext fails once the context has ended.
type readerWithContext struct {
	ctx context.Context
	r   io.Reader
}

func (r readerWithContext) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}
