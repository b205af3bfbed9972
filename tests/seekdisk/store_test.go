package seekdisk

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"sluice/tests/pattern"
)

// The store is an array of bytes, whatever is written into it where.
func TestStoreIsAnArray(t *testing.T) {
	const size = 20 * pageSize
	s, want := newStore(), make([]byte, size)
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		off := rnd.IntN(size)
		b := make([]byte, 1+rnd.IntN(min(3*pageSize, size-off)))
		switch rnd.IntN(3) {
		case 0: // zeros
		case 1:
			pattern.Fill(b, 5, int64(off))
		default:
			for i := range b {
				b[i] = byte(rnd.Uint32())
			}
		}
		copy(want[off:], b)
		s.save(b, int64(off))
		off = rnd.IntN(size)
		got := make([]byte, rnd.IntN(size-off)+1)
		s.load(got, int64(off))
		if !bytes.Equal(got, want[off:off+len(got)]) {
			t.Fatalf("%d bytes at %d differ", len(got), off)
		}
	}
}

// Zeros and patterns are not kept whole, wherever a file's pages come to lie.
func TestStoreKeepsLittle(t *testing.T) {
	s := newStore()
	b := make([]byte, 100*pageSize)
	s.save(b, 0)
	if len(s.pages) != 0 {
		t.Errorf("%d pages for zeros", len(s.pages))
	}
	pattern.Fill(b, 1, 7*pageSize)
	s.save(b, 50*pageSize)
	if raw := s.kept(); raw != 0 || len(s.pages) != 100 {
		t.Errorf("%d pages, %d whole; want 100 and none", len(s.pages), raw)
	}
	s.save([]byte{1}, 60*pageSize+9)
	if raw := s.kept(); raw != 1 {
		t.Errorf("%d pages whole after a byte was changed, want 1", raw)
	}
	s.save(make([]byte, 100*pageSize), 50*pageSize)
	if len(s.pages) != 0 {
		t.Errorf("%d pages after zeros", len(s.pages))
	}
}
