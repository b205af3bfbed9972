package nfsd

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/dchest/siphash"
)

// A file handle, in at most 56 bytes so that clients with short ones (ESXi) can
// use it. Clients keep handles across restarts, so the layout never changes
// under one version byte.
//
//	0      version, 1
//	1      kind: kernel handle or path hint
//	2..3   kernel handle type
//	4..11  volume: which export and which file system (volume.go)
//	12..   body: the kernel's handle, or inode, generation and path hint
//	last 8 MAC over everything before it
//
// The MAC (SipHash-2-4 with a secret key) means that a handle which this server
// did not make never reaches the file system. It does not make handles secret:
// who sees one on the network may use it, as with every NFSv3 server.
const (
	handleVersion = 1
	kindKernel    = 1
	kindPath      = 2

	handleVolume = 4
	handleBody   = 12
	handleMAC    = 8
	maxHandle    = 56
	maxBody      = maxHandle - handleBody - handleMAC
)

// handleKey is the secret that handles are signed with.
type handleKey struct{ k0, k1 uint64 }

const handleKeyLen = 16

// loadKey reads the key from dir, or makes it at first start. Two servers that
// serve the same file system can share it, so that clients may move over.
func loadKey(dir string) (handleKey, error) {
	path := filepath.Join(dir, "handle.key")
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		b, err = makeKey(dir, path)
	}
	if err != nil {
		return handleKey{}, fmt.Errorf("handle key: %w", err)
	}
	if len(b) != handleKeyLen {
		return handleKey{}, fmt.Errorf("handle key %s: %d bytes, want %d; removing it makes a new one, and every client mount stale", path, len(b), handleKeyLen)
	}
	return handleKey{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])}, nil
}

// makeKey writes a new key. The link makes it appear whole or not at all, and
// lets the first of two servers that start at once win.
func makeKey(dir, path string) ([]byte, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	tmp, err := os.CreateTemp(dir, "handle.key.*") // mode 0600
	if err != nil {
		return nil, err
	}
	defer os.Remove(tmp.Name())
	var key [handleKeyLen]byte
	rand.Read(key[:])
	_, err = tmp.Write(key[:])
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err != nil {
		return nil, err
	}
	if err := os.Link(tmp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return os.ReadFile(path)
}

// handle is a decoded file handle.
type handle struct {
	kind   uint8
	typ    uint16 // of the kernel's handle
	volume uint64
	body   []byte
}

// append encodes and signs the handle. The body must be at most maxBody bytes.
func (h handle) append(b []byte, key handleKey) []byte {
	n := len(b)
	b = append(b, handleVersion, h.kind)
	b = binary.BigEndian.AppendUint16(b, h.typ)
	b = binary.BigEndian.AppendUint64(b, h.volume)
	b = append(b, h.body...)
	return binary.BigEndian.AppendUint64(b, siphash.Hash(key.k0, key.k1, b[n:]))
}

// handleVolumeOf reads the volume without looking at the rest; ok is false for
// what cannot be a handle of this server.
func handleVolumeOf(b []byte) (uint64, bool) {
	if len(b) < handleBody+handleMAC || len(b) > maxHandle || b[0] != handleVersion {
		return 0, false
	}
	return binary.BigEndian.Uint64(b[handleVolume:]), true
}

// bodyOf returns the body of a handle that is known to be good.
func bodyOf(b []byte) []byte { return b[handleBody : len(b)-handleMAC] }

// parseSigned decodes a handle and checks its MAC.
func parseSigned(b []byte, key handleKey) (h handle, ok bool) {
	if h.volume, ok = handleVolumeOf(b); !ok {
		return h, false
	}
	signed := b[:len(b)-handleMAC]
	var mac [handleMAC]byte
	binary.BigEndian.PutUint64(mac[:], siphash.Hash(key.k0, key.k1, signed))
	if subtle.ConstantTimeCompare(mac[:], b[len(signed):]) == 0 {
		return h, false
	}
	h.kind, h.typ, h.body = b[1], binary.BigEndian.Uint16(b[2:]), signed[handleBody:]
	return h, h.kind == kindKernel || h.kind == kindPath
}
