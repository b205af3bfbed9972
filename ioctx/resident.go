package ioctx

import (
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

var pageSize = int64(os.Getpagesize())

// noCachestat is set once the kernel has said that it has no cachestat(2)
// (before Linux 6.5, or a seccomp filter).
var noCachestat atomic.Bool

// Resident says whether n bytes of the file at off can be read without waiting
// for a disk. It does not sleep. The range must lie within the file.
//
// cachestat(2) counts the pages that are there, read from disk or still on the
// way, and fails with EPERM for a caller who neither owns the file nor may write
// it (since Linux 6.15), so the calling thread should be privileged. A read of
// the last byte with RWF_NOWAIT tells whether the pages have arrived: a request
// completes from its front.
func Resident(fd int, off int64, n int) bool {
	var last [1]byte
	if !noCachestat.Load() {
		pages, err := cachestat(fd, off, n)
		switch {
		case err == unix.ENOSYS:
			noCachestat.Store(true)
		case err == nil && int64(pages) < pagesIn(off, n):
			return false
		}
	}
	m, err := preadv2(fd, last[:], off+int64(n)-1, unix.RWF_NOWAIT)
	return m == 1 && err == nil
}

func pagesIn(off int64, n int) int64 {
	return (off+int64(n)-1)/pageSize - off/pageSize + 1
}

// ReadNow reads what it can without waiting for a disk. It returns EAGAIN if
// that is not all of p, and EOPNOTSUPP where the file system cannot promise not
// to wait. The range must lie within the file.
func ReadNow(fd int, p []byte, off int64) (int, error) {
	n, err := preadv2(fd, p, off, unix.RWF_NOWAIT)
	if err == nil && n < len(p) {
		err = unix.EAGAIN
	}
	return n, err
}

// Read reads until p is full or the file ends, waiting where it must.
func Read(fd int, p []byte, off int64) (int, error) {
	got := 0
	for got < len(p) {
		n, err := preadv2(fd, p[got:], off+int64(got), 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil && got == 0 {
			return 0, err
		}
		if err != nil || n == 0 {
			break
		}
		got += n
	}
	return got, nil
}
