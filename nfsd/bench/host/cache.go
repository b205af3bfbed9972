package host

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// SameFile says whether a path on this machine is the file that a server told the
// inode number and size of.
func SameFile(path string, inode, size uint64) bool {
	var st unix.Stat_t
	return unix.Stat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && st.Ino == inode && uint64(st.Size) == size
}

// DropFile removes a file from the page cache. It is an error if much of it stays.
func DropFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	// Only clean pages can be dropped.
	if err := f.Sync(); err != nil && !errors.Is(err, unix.EROFS) && !errors.Is(err, unix.EINVAL) {
		return err
	}
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return fmt.Errorf("posix_fadvise: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	// cachestat(2), since Linux 6.5; before, there is no cheap way to tell.
	var cached unix.Cachestat_t
	if unix.Cachestat(uint(f.Fd()), &unix.CachestatRange{}, &cached, 0) != nil {
		return nil
	}
	const most = 100 // one part in so many may stay
	if stays := cached.Cache * uint64(os.Getpagesize()); stays > uint64(st.Size)/most {
		return fmt.Errorf("%d of %d bytes stay in the page cache, as on file systems in memory or while another uses the file", stays, st.Size)
	}
	return nil
}

// dropLimit is how long dropping everything may take: one file system that hangs
// holds it up, and the kernel lets nobody interrupt it.
const dropLimit = time.Minute

// DropAll removes all clean pages of all files from the page cache; it takes root.
func DropAll() error {
	done := make(chan error, 1)
	go func() {
		unix.Sync()
		done <- os.WriteFile("/proc/sys/vm/drop_caches", []byte("1"), 0)
	}()
	select {
	case err := <-done:
		return err
	case <-time.After(dropLimit):
		return fmt.Errorf("dropping the page cache takes more than %v; a file system seems to hang", dropLimit)
	}
}
