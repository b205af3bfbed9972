package compare

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// DataDir is where files to measure with are made: on a disk, as a rule, where
// /tmp may be memory.
const DataDir = "/var/tmp"

// MakeFile makes a file of random bytes in a directory of its own below DataDir,
// readable by everybody. remove removes both.
func MakeFile(ctx context.Context, size int64) (name string, remove func(), err error) {
	dir, err := os.MkdirTemp(DataDir, "sluice-bench-")
	if err != nil {
		return "", nil, err
	}
	remove = func() { os.RemoveAll(dir) }
	name = filepath.Join(dir, "data")
	if err = os.Chmod(dir, 0o755); err == nil {
		err = writeRandom(ctx, name, size)
	}
	if err != nil {
		remove()
		return "", nil, fmt.Errorf("a file to measure with: %w", err)
	}
	return name, remove, nil
}

func writeRandom(ctx context.Context, name string, size int64) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	_, err = io.CopyN(w, randomReader{ctx, rand.NewChaCha8([32]byte{1})}, size)
	return errors.Join(err, w.Flush(), f.Sync(), f.Close())
}

// randomReader ends with its context.
type randomReader struct {
	ctx context.Context
	r   io.Reader
}

func (r randomReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}
