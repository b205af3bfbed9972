package nfsd

import (
	"encoding/binary"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// identity is who the kernel shall check permissions for. It never changes once
// made, and equal ones are the same pointer as long as they are remembered, so
// comparing pointers is enough to save work.
type identity struct {
	uid, gid uint32
	groups   []uint32
}

// privileged is the server's own identity.
var privileged = &identity{}

// maxIdentities bounds the identities that are remembered. Beyond it all are
// forgotten, which costs some system calls and nothing else.
const maxIdentities = 4096

// identities interns.
type identities struct {
	mu sync.Mutex
	m  map[string]*identity
}

// get returns the identity with these ids. The groups are copied if need be.
func (t *identities) get(uid, gid uint32, groups []uint32) *identity {
	var buf [4 * (2 + 16)]byte
	key := binary.LittleEndian.AppendUint32(buf[:0], uid)
	key = binary.LittleEndian.AppendUint32(key, gid)
	for _, g := range groups {
		key = binary.LittleEndian.AppendUint32(key, g)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if id := t.m[string(key)]; id != nil {
		return id
	}
	if t.m == nil || len(t.m) >= maxIdentities {
		t.m = make(map[string]*identity)
	}
	id := &identity{uid, gid, slices.Clone(groups)}
	t.m[string(key)] = id
	return id
}

// canSwitch says whether this process may take on other identities: the
// capabilities SETUID and SETGID. It is found out on the calling thread, which
// must be locked and is good for nothing else if the answer is no.
func canSwitch() bool {
	const probe = 65534
	uid, gid := fsIdentity()
	if uid != 0 || setFSIdentity(probe, probe, nil) != nil {
		return false
	}
	u, g := fsIdentity()
	_ = setFSIdentity(uid, gid, nil)
	return u == probe && g == probe
}

// become makes the thread act as id. It costs nothing if it already does.
func (w *worker) become(id *identity) nfsstat3 {
	if w.now == id || !w.srv.switches {
		return nfs3OK
	}
	if err := setFSIdentity(id.uid, id.gid, id.groups); err != nil {
		w.now = nil
		return nfs3ErrServerfault
	}
	w.now = id
	return nfs3OK
}

// access asks the kernel for one kind of access as id.
func (w *worker) access(id *identity, fd int, mode uint32) error {
	if st := w.become(id); st != nfs3OK {
		return unix.EIO
	}
	return faccess(fd, mode)
}
