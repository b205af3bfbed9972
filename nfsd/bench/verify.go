package bench

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// verifier compares what is read with local files. Without names it is nil.
func verifier(names []string) (verify func(file int, off uint64, data []byte) error, closeAll func(), err error) {
	var files []*os.File
	closeAll = func() {
		for _, f := range files {
			f.Close()
		}
	}
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			closeAll()
			return nil, nil, UsageError{err}
		}
		files = append(files, f)
	}
	if len(files) == 0 {
		return nil, closeAll, nil
	}
	buffers := sync.Pool{New: func() any { return new([]byte) }}
	return func(file int, off uint64, data []byte) error {
		buf := buffers.Get().(*[]byte)
		defer buffers.Put(buf)
		if len(*buf) < len(data) {
			*buf = make([]byte, len(data))
		}
		want := (*buf)[:len(data)]
		n, err := files[file].ReadAt(want, int64(off))
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if n < len(data) {
			return fmt.Errorf("%s ends at offset %d, and the server has more", files[file].Name(), off+uint64(n))
		}
		if bytes.Equal(want, data) {
			return nil
		}
		i := 0
		for want[i] == data[i] {
			i++
		}
		return fmt.Errorf("WRONG DATA at offset %d: byte %#02x, in %s it is %#02x", off+uint64(i), data[i], files[file].Name(), want[i])
	}, closeAll, nil
}
