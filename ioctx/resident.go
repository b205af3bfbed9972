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

// sampleStride is how far apart a range is looked at where cachestat(2) is not
// to be had: the kernel reads ahead in units of at least this many bytes.
const sampleStride = 64 << 10

// Resident says whether n bytes of the file at off can be read without waiting
// for a disk. It does not sleep. The range must lie within the file.
//
// cachestat(2) counts the pages that are there, read from disk or still on the
// way. A read of the last byte with RWF_NOWAIT tells whether they have arrived: a
// request completes from its front. Without cachestat one byte is read every so
// often; a page that is missing between two of them makes the reader wait.
func Resident(fd int, off int64, n int) bool {
	last := off + int64(n) - 1
	all, err := cached(fd, off, n)
	if err != nil {
		return sampled(fd, off, last)
	}
	if !all {
		return false
	}
	here, err := arrived(fd, last)
	// Some file systems cannot promise not to wait (tmpfs); then the count must do.
	return here || err == unix.EOPNOTSUPP
}

// cached says whether the page cache has all pages of a range. It fails without
// cachestat(2), and with EPERM for a caller who neither owns the file nor may
// write it (since Linux 6.15), so the calling thread should be privileged.
func cached(fd int, off int64, n int) (bool, error) {
	if noCachestat.Load() {
		return false, unix.ENOSYS
	}
	pages, err := cachestat(fd, off, n)
	if err == unix.ENOSYS {
		noCachestat.Store(true)
	}
	return int64(pages) >= pagesIn(off, n), err
}

func sampled(fd int, off, last int64) bool {
	for ; off < last; off += sampleStride {
		if here, _ := arrived(fd, off); !here {
			return false
		}
	}
	here, _ := arrived(fd, last)
	return here
}

// arrived says whether one byte is in the page cache.
func arrived(fd int, off int64) (bool, error) {
	var b [1]byte
	n, err := preadv2(fd, b[:], off, unix.RWF_NOWAIT)
	return n == 1 && err == nil, err
}

func pagesIn(off int64, n int) int64 {
	return (off+int64(n)-1)/pageSize - off/pageSize + 1
}

// ReadNow reads what it can without waiting for a disk. It returns EAGAIN if
// that is not all of p, and EOPNOTSUPP where the file system cannot promise not
// to wait. The range must lie within the file.
func ReadNow(fd int, p []byte, off int64) (int, error) {
	n, err := preadv2(fd, p, off, unix.RWF_NOWAIT)
	if err == unix.EOPNOTSUPP {
		if all, err := cached(fd, off, len(p)); all && err == nil {
			return Read(fd, p, off)
		}
	}
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
