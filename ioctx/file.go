package ioctx

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Key names a file in the cache: an NFS file handle, which is at most 64 bytes
// (RFC 1813 section 2.2), and its length.
type Key struct {
	n uint8
	b [64]byte
}

// MakeKey makes the key for a handle; ok is false if it is too long or empty.
func MakeKey(handle []byte) (k Key, ok bool) {
	if len(handle) == 0 || len(handle) > len(k.b) {
		return k, false
	}
	k.n = uint8(copy(k.b[:], handle))
	return k, true
}

// Bytes returns the handle.
func (k *Key) Bytes() []byte { return k.b[:k.n] }

// ErrTooManyFiles says that the cache is full of files in use.
var ErrTooManyFiles = errors.New("ioctx: every cached file is in use")

// File is an object that the server knows, with one open file description for
// all threads and connections, so that read-ahead state follows the file and
// not the reader. It stays open while someone holds a reference.
type File struct {
	// Value is what the owner of the cache keeps with the file. It is set before
	// the file is shared and not changed after.
	Value any

	key  Key
	path int // opened with O_PATH
	refs atomic.Int32
	used atomic.Uint32 // sweep number of the last use

	// mu guards the opening of data.
	mu   sync.Mutex
	data atomic.Int32 // opened for reading, or -1
	// memory is set with data: the file is on a file system without a disk.
	memory atomic.Bool

	// warm says that the last small READ was served from the page cache.
	warm atomic.Bool
	// io is what the device knows of the file while something is read from it.
	io atomic.Pointer[fileIO]
}

// Handle returns the file's key.
func (f *File) Handle() []byte { return f.key.Bytes() }

// Path returns the O_PATH descriptor.
func (f *File) Path() int { return f.path }

// Data returns a descriptor open for reading, which it opens at first use. The
// calling thread must be privileged: permission is not the cache's business.
// Only regular files may be opened: opening a FIFO or a device has effects.
func (f *File) Data() (int, error) {
	if fd := f.data.Load(); fd >= 0 {
		return int(fd), nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if fd := f.data.Load(); fd >= 0 {
		return int(fd), nil
	}
	// An O_PATH descriptor is opened anew through /proc (open(2), O_PATH).
	// O_NONBLOCK makes a lease held by another process an error, not a wait.
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", f.path), unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return -1, err
	}
	var st unix.Statfs_t
	if unix.Fstatfs(fd, &st) == nil && (st.Type == unix.TMPFS_MAGIC || uint32(st.Type) == unix.RAMFS_MAGIC) {
		f.memory.Store(true)
	}
	f.data.Store(int32(fd))
	return fd, nil
}

// InMemory says of a file whose Data has been opened that reading it waits for
// no disk, whatever the page cache says: it is on tmpfs or ramfs. (What has been
// swapped out is the exception that is put up with.)
func (f *File) InMemory() bool { return f.memory.Load() }

// Release gives up a reference.
func (f *File) Release() {
	if f.refs.Add(-1) < 0 {
		panic("ioctx: file released more often than acquired")
	}
}

func (f *File) close() {
	_ = unix.Close(f.path)
	if fd := f.data.Load(); fd >= 0 {
		_ = unix.Close(int(fd))
	}
}

// Files is the cache of open files.
type Files struct {
	perShard int
	now      atomic.Uint32 // sweep number
	shards   [fileShards]fileShard
	stop     chan struct{}
	done     chan struct{}

	// Opened and Evicted count files added, and closed for want of room.
	Opened, Evicted atomic.Uint64
}

type fileShard struct {
	mu    sync.Mutex
	files map[Key]*File
	// gone holds files that left the map while in use.
	gone []*File
	_    [24]byte // keep neighbouring locks on different cache lines
}

// NewFiles returns a cache for about limit files and starts its sweeper.
func NewFiles(limit int) *Files {
	f := &Files{perShard: max(1, limit/fileShards), stop: make(chan struct{}), done: make(chan struct{})}
	for i := range f.shards {
		f.shards[i].files = make(map[Key]*File)
	}
	go f.sweepLoop()
	return f
}

// shard spreads by the last bytes of the handle, where its MAC or inode is.
func (f *Files) shard(k *Key) *fileShard {
	h := uint32(2166136261) // FNV-1a over the tail
	for _, b := range k.b[max(0, int(k.n)-8):k.n] {
		h = (h ^ uint32(b)) * 16777619
	}
	return &f.shards[h%fileShards]
}

// Get returns the file with a reference, or nil.
func (f *Files) Get(k *Key) *File {
	s := f.shard(k)
	s.mu.Lock()
	file := s.files[*k]
	if file != nil {
		file.refs.Add(1)
	}
	s.mu.Unlock()
	if file != nil {
		if now := f.now.Load(); file.used.Load() != now {
			file.used.Store(now)
		}
	}
	return file
}

// Add shares the O_PATH descriptor fd under k and returns the file with a
// reference. If the file is there already, fd is closed and that one returned.
// On an error fd stays the caller's.
func (f *Files) Add(k *Key, fd int, value any) (*File, error) {
	s := f.shard(k)
	s.mu.Lock()
	if file := s.files[*k]; file != nil {
		file.refs.Add(1)
		s.mu.Unlock()
		file.used.Store(f.now.Load())
		_ = unix.Close(fd)
		return file, nil
	}
	var victim *File
	if len(s.files) >= f.perShard {
		if victim = s.oldest(); victim == nil {
			s.mu.Unlock()
			return nil, ErrTooManyFiles
		}
		delete(s.files, victim.key)
	}
	file := &File{key: *k, path: fd, Value: value}
	file.data.Store(-1)
	file.refs.Store(1)
	file.used.Store(f.now.Load())
	s.files[*k] = file
	s.mu.Unlock()
	f.Opened.Add(1)
	if victim != nil {
		f.Evicted.Add(1)
		victim.close()
	}
	return file, nil
}

// oldest returns the least recently used of a few files that nobody holds. Go's
// map order is random enough for that.
func (s *fileShard) oldest() *File {
	var best *File
	looked := 0
	for _, file := range s.files {
		if file.refs.Load() == 0 && (best == nil || file.used.Load() < best.used.Load()) {
			best = file
		}
		if looked++; looked >= evictSample && best != nil {
			break
		}
	}
	return best
}

// Drop forgets a file, such as one that was deleted; it is closed when the last
// reference is gone.
func (f *Files) Drop(file *File) {
	s := f.shard(&file.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.files[file.key] == file {
		delete(s.files, file.key)
		s.gone = append(s.gone, file)
	}
}

// DropIf forgets the files that match, as when an export goes away.
func (f *Files) DropIf(match func(*File) bool) {
	for i := range f.shards {
		s := &f.shards[i]
		s.mu.Lock()
		for k, file := range s.files {
			if match(file) {
				delete(s.files, k)
				s.gone = append(s.gone, file)
			}
		}
		s.mu.Unlock()
	}
}

// Len returns how many files are open.
func (f *Files) Len() int {
	n := 0
	for i := range f.shards {
		s := &f.shards[i]
		s.mu.Lock()
		n += len(s.files) + len(s.gone)
		s.mu.Unlock()
	}
	return n
}

// Close closes all files. No reference may be left.
func (f *Files) Close() {
	close(f.stop)
	<-f.done
	f.DropIf(func(*File) bool { return true })
	f.sweep()
}

func (f *Files) sweepLoop() {
	defer close(f.done)
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-f.stop:
			return
		case <-tick.C:
			f.sweep()
		}
	}
}

// sweep closes files that nobody has used for a while. Closing may wait for a
// disk (a deleted file's blocks are freed by its last close), which is why it is
// done here and not where the last reference goes.
func (f *Files) sweep() {
	now := f.now.Add(1)
	var closing []*File
	for i := range f.shards {
		s := &f.shards[i]
		s.mu.Lock()
		for k, file := range s.files {
			if file.refs.Load() == 0 && now-file.used.Load() > sweepAge {
				delete(s.files, k)
				closing = append(closing, file)
			}
		}
		kept := s.gone[:0]
		for _, file := range s.gone {
			if file.refs.Load() == 0 {
				closing = append(closing, file)
			} else {
				kept = append(kept, file)
			}
		}
		clear(s.gone[len(kept):])
		s.gone = kept
		s.mu.Unlock()
	}
	for _, file := range closing {
		file.close()
	}
}
