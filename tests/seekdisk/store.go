package seekdisk

import (
	"sync"

	"sluice/tests/pattern"
)

const pageSize = pattern.PageSize

// store is the disk's content. Pages that were never written are zeros.
type store struct {
	mu    sync.RWMutex
	pages map[int64]page
}

// page is either a page of a pattern or its bytes.
type page struct {
	seed, number uint64
	raw          *[pageSize]byte
}

func newStore() *store { return &store{pages: make(map[int64]page)} }

// load fills b with what is at off.
func (s *store) load(b []byte, off int64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var buf [pageSize]byte
	for len(b) > 0 {
		at := off % pageSize
		n := min(int64(len(b)), pageSize-at)
		copy(b[:n], s.bytes(off/pageSize, &buf)[at:])
		b = b[n:]
		off += n
	}
}

var zeros [pageSize]byte

// bytes returns a page's content, for which it may use buf.
func (s *store) bytes(i int64, buf *[pageSize]byte) *[pageSize]byte {
	p, ok := s.pages[i]
	switch {
	case !ok:
		return &zeros
	case p.raw != nil:
		return p.raw
	}
	pattern.Page(buf, p.seed, p.number)
	return buf
}

// save keeps b at off.
func (s *store) save(b []byte, off int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var buf [pageSize]byte
	for len(b) > 0 {
		i, at := off/pageSize, off%pageSize
		n := min(int64(len(b)), pageSize-at)
		buf = *s.bytes(i, &buf)
		copy(buf[at:], b[:n])
		s.put(i, &buf)
		b = b[n:]
		off += n
	}
}

func (s *store) put(i int64, content *[pageSize]byte) {
	if *content == zeros {
		delete(s.pages, i)
		return
	}
	if seed, number, ok := pattern.Recognize(content); ok {
		s.pages[i] = page{seed: seed, number: number}
		return
	}
	p := s.pages[i]
	if p.raw == nil {
		p = page{raw: new([pageSize]byte)}
		s.pages[i] = p
	}
	*p.raw = *content
}

// kept is how many pages are kept whole.
func (s *store) kept() (raw int) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, p := range s.pages {
		if p.raw != nil {
			raw++
		}
	}
	return raw
}
