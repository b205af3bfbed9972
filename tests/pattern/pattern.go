// Package pattern makes file content that needs no keeping: every page of it
// follows from a seed and the page's number, so that a reader can check any
// range, and a store can keep 16 bytes of a page (see Recognize).
//
// A page begins with its seed and its number, little-endian; the rest is a
// splitmix64 sequence (Steele, Lea, Flood: Fast Splittable Pseudorandom Number
// Generators, 2014) that starts from the two.
package pattern

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
)

// PageSize is the unit in which content is made, in bytes.
const PageSize = 4096

const golden = 0x9e3779b97f4a7c15

func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Page makes page number of the content with seed.
func Page(p *[PageSize]byte, seed, number uint64) {
	binary.LittleEndian.PutUint64(p[0:], seed)
	binary.LittleEndian.PutUint64(p[8:], number)
	state := mix(seed+golden) ^ number*golden
	for i := 16; i < PageSize; i += 8 {
		state += golden
		binary.LittleEndian.PutUint64(p[i:], mix(state))
	}
}

// Recognize says of which content p is a page, if of any.
func Recognize(p *[PageSize]byte) (seed, number uint64, ok bool) {
	seed, number = binary.LittleEndian.Uint64(p[0:]), binary.LittleEndian.Uint64(p[8:])
	state := mix(seed+golden) ^ number*golden
	for i := 16; i < PageSize; i += 8 {
		state += golden
		if binary.LittleEndian.Uint64(p[i:]) != mix(state) {
			return 0, 0, false
		}
	}
	return seed, number, true
}

// Fill fills p with the content of seed at off.
func Fill(p []byte, seed uint64, off int64) {
	var page [PageSize]byte
	for len(p) > 0 {
		Page(&page, seed, uint64(off/PageSize))
		n := copy(p, page[off%PageSize:])
		p = p[n:]
		off += int64(n)
	}
}

// Check compares p with the content of seed at off.
func Check(p []byte, seed uint64, off int64) error {
	var page [PageSize]byte
	for len(p) > 0 {
		Page(&page, seed, uint64(off/PageSize))
		want := page[off%PageSize:]
		want = want[:min(len(want), len(p))]
		if !bytes.Equal(p[:len(want)], want) {
			i := 0
			for p[i] == want[i] {
				i++
			}
			return fmt.Errorf("content %d at %d: byte %#02x, want %#02x", seed, off+int64(i), p[i], want[i])
		}
		p = p[len(want):]
		off += int64(len(want))
	}
	return nil
}

// WriteFile makes a file of size bytes of the content of seed, and has it
// written to disk.
func WriteFile(name string, seed uint64, size int64) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := WriteAt(f, seed, 0, size); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return f.Close()
}

// WriteAt writes n bytes of the content of seed at off, where they belong.
func WriteAt(f *os.File, seed uint64, off, n int64) error {
	buf := make([]byte, 1<<20)
	for n > 0 {
		b := buf[:min(n, int64(len(buf)))]
		Fill(b, seed, off)
		if _, err := f.WriteAt(b, off); err != nil {
			return err
		}
		off += int64(len(b))
		n -= int64(len(b))
	}
	return nil
}
