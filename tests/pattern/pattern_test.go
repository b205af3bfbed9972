package pattern

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// splitmix64 of seed 1234567 begins with these numbers (Rosetta Code,
// "Pseudo-random numbers/Splitmix64").
func TestMixIsSplitmix64(t *testing.T) {
	state := uint64(1234567)
	for i, want := range []uint64{6457827717110365317, 3203168211198807973, 9817491932198370423} {
		state += golden
		if got := mix(state); got != want {
			t.Errorf("number %d: %d, want %d", i, got, want)
		}
	}
}

func TestRecognize(t *testing.T) {
	var p [PageSize]byte
	Page(&p, 7, 123456)
	if seed, number, ok := Recognize(&p); !ok || seed != 7 || number != 123456 {
		t.Errorf("%d, %d, %v; want 7, 123456, true", seed, number, ok)
	}
	p[PageSize-1] ^= 1
	if _, _, ok := Recognize(&p); ok {
		t.Error("a page with a wrong last byte is recognized")
	}
	if _, _, ok := Recognize(new([PageSize]byte)); ok {
		t.Error("a page of zeros is recognized")
	}
}

// Any cut of the content is the same bytes, and one wrong byte is found.
func TestFillAndCheck(t *testing.T) {
	whole := make([]byte, 5*PageSize)
	Fill(whole, 3, 0)
	for _, c := range []struct{ off, n int }{{0, 1}, {4095, 2}, {4096, 4096}, {5000, 10_000}, {9, 16}} {
		part := make([]byte, c.n)
		Fill(part, 3, int64(c.off))
		if !bytes.Equal(part, whole[c.off:c.off+c.n]) {
			t.Errorf("%d bytes at %d differ from the whole", c.n, c.off)
		}
		if err := Check(part, 3, int64(c.off)); err != nil {
			t.Error(err)
		}
		part[c.n-1]++
		if Check(part, 3, int64(c.off)) == nil {
			t.Errorf("%d bytes at %d: a wrong last byte goes unnoticed", c.n, c.off)
		}
	}
	if Check(whole[:PageSize], 3, PageSize) == nil || Check(whole[:PageSize], 4, 0) == nil {
		t.Error("another page, or another seed, goes unnoticed")
	}
}

func TestWriteFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	if err := WriteFile(name, 9, 3<<20+17); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(name)
	if err != nil || len(b) != 3<<20+17 {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	if err := Check(b, 9, 0); err != nil {
		t.Error(err)
	}
}

func BenchmarkPage(b *testing.B) {
	var p [PageSize]byte
	b.SetBytes(PageSize)
	for i := range b.N {
		Page(&p, 1, uint64(i))
	}
}
