package nfsd

import (
	"net/netip"
	"slices"
	"sync"
)

// maxMounts bounds what is remembered for DUMP. The list is advisory (RFC 1813
// appendix I): clients that vanish never take their entries back.
const maxMounts = 1024

type mountEntry struct {
	host netip.Addr
	path string
}

// mountList is who has mounted what, oldest first.
type mountList struct {
	mu      sync.Mutex
	entries []mountEntry
}

func (l *mountList) add(host netip.Addr, path string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := mountEntry{host, path}
	if slices.Contains(l.entries, e) {
		return
	}
	if len(l.entries) >= maxMounts {
		l.entries = slices.Delete(l.entries, 0, 1)
	}
	l.entries = append(l.entries, e)
}

func (l *mountList) remove(host netip.Addr, path string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = slices.DeleteFunc(l.entries, func(e mountEntry) bool { return e == mountEntry{host, path} })
}

func (l *mountList) removeAll(host netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = slices.DeleteFunc(l.entries, func(e mountEntry) bool { return e.host == host })
}

func (l *mountList) list() []mountEntry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.entries)
}
