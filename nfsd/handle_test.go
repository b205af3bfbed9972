package nfsd

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dchest/siphash"
)

var testKey = handleKey{0x0706050403020100, 0x0f0e0d0c0b0a0908}

func sampleHandle(body int) handle {
	return handle{kind: kindKernel, typ: 0x81, volume: 0x0123456789abcdef, body: bytes.Repeat([]byte{0xa5}, body)}
}

// A handle comes back as it was made, and is at most 56 bytes long.
func TestHandleRoundTrip(t *testing.T) {
	for n := 0; n <= maxBody; n++ {
		h := sampleHandle(n)
		b := h.append([]byte("before"), testKey)[6:]
		if len(b) > 56 || len(b) != handleBody+n+handleMAC {
			t.Fatalf("a body of %d bytes makes a handle of %d", n, len(b))
		}
		got, ok := parseSigned(b, testKey)
		if !ok || got.kind != h.kind || got.typ != h.typ || got.volume != h.volume || !bytes.Equal(got.body, h.body) {
			t.Fatalf("body of %d bytes: %+v, %v", n, got, ok)
		}
		if v, ok := handleVolumeOf(b); !ok || v != h.volume || !bytes.Equal(bodyOf(b), h.body) {
			t.Fatalf("body of %d bytes: volume %x, %v", n, v, ok)
		}
	}
}

// The layout is part of the protocol with clients that keep handles across
// restarts: version, kind, type, volume, body, SipHash-2-4 of it all.
func TestHandleLayout(t *testing.T) {
	b := handle{kind: 2, typ: 0x1234, volume: 0x0102030405060708, body: []byte{9, 10}}.append(nil, testKey)
	want := []byte{1, 2, 0x12, 0x34, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	if !bytes.Equal(b[:len(b)-8], want) {
		t.Errorf("% x, want % x and a MAC", b, want)
	}
	// The MAC is SipHash-2-4, little-endian words of the key, big-endian on the wire.
	// Its reference vector: key 00..0f, input 00..0e gives a129ca6149be45e5
	// (Aumasson and Bernstein, appendix A).
	in := make([]byte, 15)
	for i := range in {
		in[i] = byte(i)
	}
	if got := siphash.Hash(testKey.k0, testKey.k1, in); got != 0xa129ca6149be45e5 {
		t.Errorf("SipHash of the reference input is %x", got)
	}
	if got, want := binary.BigEndian.Uint64(b[len(b)-8:]), siphash.Hash(testKey.k0, testKey.k1, want); got != want {
		t.Errorf("MAC %x, want %x", got, want)
	}
}

// No bit of a handle can be changed, no byte taken away or added.
func TestHandleAltered(t *testing.T) {
	for _, n := range []int{0, 8, maxBody} {
		good := sampleHandle(n).append(nil, testKey)
		for bit := range 8 * len(good) {
			b := slices.Clone(good)
			b[bit/8] ^= 1 << (bit % 8)
			if _, ok := parseSigned(b, testKey); ok {
				t.Fatalf("a handle with bit %d changed is taken", bit)
			}
		}
		for cut := range good {
			if _, ok := parseSigned(good[:cut], testKey); ok {
				t.Fatalf("the first %d bytes of a handle are taken", cut)
			}
		}
		if _, ok := parseSigned(append(slices.Clone(good), 0), testKey); ok {
			t.Fatal("a handle with a byte more is taken")
		}
		if _, ok := parseSigned(good, handleKey{testKey.k0, testKey.k1 ^ 1}); ok {
			t.Fatal("a handle of another key is taken")
		}
	}
}

// A kind or version that does not exist is refused although the MAC is right.
func TestHandleKind(t *testing.T) {
	for kind := range 256 {
		h := sampleHandle(8)
		h.kind = uint8(kind)
		_, ok := parseSigned(h.append(nil, testKey), testKey)
		if ok != (kind == kindKernel || kind == kindPath) {
			t.Errorf("kind %d: %v", kind, ok)
		}
	}
}

// The key is made once, secret, whoever comes first, and read again after.
func TestLoadKey(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "state")
	keys := make([]handleKey, 8)
	var all sync.WaitGroup
	for i := range keys {
		all.Go(func() {
			k, err := loadKey(dir)
			if err != nil {
				t.Error(err)
			}
			keys[i] = k
		})
	}
	all.Wait()
	for _, k := range keys {
		if k != keys[0] || k == (handleKey{}) {
			t.Fatalf("servers that start at once have keys %v", keys)
		}
	}
	fi, err := os.Stat(filepath.Join(dir, "handle.key"))
	must(t, err)
	if fi.Mode().Perm() != 0o600 || fi.Size() != 16 {
		t.Errorf("the key file has mode %v and %d bytes", fi.Mode(), fi.Size())
	}
	left, err := os.ReadDir(dir)
	must(t, err)
	if len(left) != 1 {
		t.Errorf("%d files are left in the state directory", len(left))
	}
	other, err := loadKey(t.TempDir())
	must(t, err)
	if other == keys[0] {
		t.Error("another directory has the same key")
	}
}

func TestLoadKeyDamaged(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "handle.key")
	for _, n := range []int{0, 15, 17} {
		must(t, os.WriteFile(path, make([]byte, n), 0o600))
		if _, err := loadKey(dir); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("a key of %d bytes: %v", n, err)
		}
	}
}

// Two servers with one key and one fsid make the same handles; without fsid= too
// where it is the same directory of the same file system.
func TestHandlesOfTwins(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()
	for _, options := range []string{"ro,fsid=5", "ro"} {
		m := exporting(t, options, dir)
		a, b := newService(t, state, m), newService(t, state, m)
		rootOf := func(s *Server) []byte { return s.shares.Load().byPath[dir].vol.root }
		if len(rootOf(a)) == 0 || !bytes.Equal(rootOf(a), rootOf(b)) {
			t.Errorf("%s: roots % x and % x", options, rootOf(a), rootOf(b))
		}
		if other := newService(t, t.TempDir(), m); bytes.Equal(rootOf(a), rootOf(other)) {
			t.Errorf("%s: a server with another key makes the same handle", options)
		}
	}
}

func FuzzHandle(f *testing.F) {
	f.Add(sampleHandle(8).append(nil, testKey))
	f.Add(handle{kind: kindPath, body: new(pathHint).encode(nil)}.append(nil, testKey))
	f.Add(make([]byte, 32))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, ok := parseSigned(b, testKey)
		if !ok {
			return
		}
		if got := h.append(nil, testKey); !bytes.Equal(got, b) {
			t.Fatalf("% x is taken for % x", b, got)
		}
	})
}
