package nfsd

import (
	"hash/maphash"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"sluice/ioctx"
)

// names remembers what LOOKUP found, so that asking again costs two fstat calls
// instead of opening the object. What it says holds as long as the directory's
// mtime and ctime are what they were: the kernel changes both whenever an entry
// comes, goes or is replaced (POSIX, rename(2), unlink(2), link(2)). It is used
// on local file systems only, and says nothing of permission.
//
// The table has a fixed size; a newer name takes the place of an older one with
// the same hash.
type names struct {
	seed  maphash.Seed
	slots [nameSlots]atomic.Pointer[nameEntry]
	// Hits counts LOOKUPs answered from here.
	Hits atomic.Uint64
}

const nameSlots = 4096

type nameEntry struct {
	dir          *object // compared by identity: the pointer keeps it from being reused
	name         string
	mtime, ctime unix.Timespec // of the directory
	child        ioctx.Key
}

func (n *names) slot(dir *object, name []byte) *atomic.Pointer[nameEntry] {
	return &n.slots[(maphash.Bytes(n.seed, name)^dir.number*0x9e3779b97f4a7c15)%nameSlots]
}

// get returns the handle that name had in dir, whose attributes are given.
func (n *names) get(dir *object, a *attr, name []byte) *ioctx.Key {
	e := n.slot(dir, name).Load()
	if e == nil || e.dir != dir || e.mtime != a.Mtim || e.ctime != a.Ctim || e.name != string(name) {
		return nil
	}
	return &e.child
}

// put remembers a name found in dir. a are the directory's attributes from
// before the look-up. A directory that has just changed is not remembered: a
// second change within the clock's tick would not show.
func (n *names) put(dir *object, a *attr, name []byte, child *ioctx.Key) {
	if !settled(a.Ctim) || !settled(a.Mtim) {
		return
	}
	n.slot(dir, name).Store(&nameEntry{dir, string(name), a.Mtim, a.Ctim, *child})
}

// settled says that a time stamp is old enough for the next change to differ:
// file systems stamp with a clock that ticks every 1 to 10 ms.
func settled(t unix.Timespec) bool { return time.Since(time.Unix(t.Unix())) >= settleTime }

const settleTime = 100 * time.Millisecond
