package nfsd

import (
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// openDirs keeps the directories of recently used volumes open. There may be
// more exports than a process may have descriptors, and each is needed only
// where a handle is opened anew.
type openDirs struct {
	max int

	// mu is never held while a file system is asked.
	mu   sync.Mutex
	open []*volume
	tick uint64
}

// acquire returns the volume's directory, which stays open until release. The
// caller must be privileged.
func (d *openDirs) acquire(v *volume) (int, error) {
	if dir := d.take(v); dir >= 0 {
		return dir, nil
	}
	dir, err := openVolume(v)
	if err != nil {
		return -1, err
	}
	closing := []int{}
	d.mu.Lock()
	switch {
	case v.retired:
		closing, dir, err = append(closing, dir), -1, unix.ESTALE
	case v.dir >= 0: // another thread was faster
		closing, dir = append(closing, dir), v.dir
		v.holders++
	default:
		v.dir = dir
		v.holders++
		d.tick++
		v.used = d.tick
		d.open = append(d.open, v)
		closing = d.evict(closing)
	}
	d.mu.Unlock()
	closeAll(closing)
	return dir, err
}

// take is acquire of what is open already; -1 if it is not.
func (d *openDirs) take(v *volume) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if v.dir < 0 {
		return -1
	}
	v.holders++
	d.tick++
	v.used = d.tick
	return v.dir
}

// release gives a directory back.
func (d *openDirs) release(v *volume) {
	d.mu.Lock()
	v.holders--
	var closing []int
	if v.retired && v.holders == 0 {
		closing = d.drop(closing, v)
	}
	d.mu.Unlock()
	closeAll(closing)
}

// evict makes room by forgetting what has not been used for longest.
func (d *openDirs) evict(closing []int) []int {
	for len(d.open) > d.max {
		var oldest *volume
		for _, v := range d.open {
			if v.holders == 0 && (oldest == nil || v.used < oldest.used) {
				oldest = v
			}
		}
		if oldest == nil {
			break // all in use; calls hold them for a moment only
		}
		closing = d.drop(closing, oldest)
	}
	return closing
}

func (d *openDirs) drop(closing []int, v *volume) []int {
	d.open = slices.DeleteFunc(d.open, func(o *volume) bool { return o == v })
	closing = append(closing, v.dir)
	v.dir = -1
	return closing
}

// retire closes volumes for good, each as soon as nobody uses it, so that what
// they are on can be unmounted and its disk be taken away.
func (d *openDirs) retire(gone map[*volume]bool) {
	d.mu.Lock()
	var closing []int
	for v := range gone {
		v.retired = true
		if v.dir >= 0 && v.holders == 0 {
			closing = d.drop(closing, v)
		}
	}
	d.mu.Unlock()
	closeAll(closing)
}

func (d *openDirs) isRetired(v *volume) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return v.retired
}

// close closes all. No call may be under way.
func (d *openDirs) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, v := range d.open {
		unix.Close(v.dir)
		v.dir = -1
	}
	d.open = nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// openVolume opens the directory of a volume, if it is still the same one.
func openVolume(v *volume) (int, error) {
	dir, err := openClone(v.path)
	if err != nil {
		if dir, err = openDirectory(v.path); err != nil {
			return -1, err
		}
	}
	var st unix.Stat_t
	if err = fstatMayBlock(dir, &st); err == nil && (st.Dev != v.dev || st.Ino != v.ino) {
		err = unix.ESTALE
	}
	if err != nil {
		unix.Close(dir)
		return -1, err
	}
	return dir, nil
}

// openClone opens a directory on a mount of its own, a copy of the one that it
// is on, with the directory as its root. Nothing that is mounted below the
// directory, now or later, is in the copy, which is how hide of exports(5) comes
// about without a race, and the original can be unmounted while it is in use
// here.
//
// open_tree(2) with OPEN_TREE_CLONE (Linux 5.2) makes the copy and needs
// CAP_SYS_ADMIN. Its descriptor is O_PATH, which open_by_handle_at(2) does not
// take, hence the second open. Closing the first dissolves the copy, as
// umount2(2) with MNT_DETACH would: it leaves its peer group, and lives on with
// the descriptors that are on it.
func openClone(path string) (int, error) {
	tree, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(tree)
	return unix.Openat(tree, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
}
