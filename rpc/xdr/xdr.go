// Package xdr holds the primitives of External Data Representation (RFC 4506)
// that ONC RPC needs: append-style encoding into a caller's buffer and a
// bounds-checked reader over received bytes. Neither allocates.
package xdr

import (
	"encoding/binary"
	"errors"
)

// ErrShort reports data that ends before the item it should hold.
var ErrShort = errors.New("xdr: data ends early")

// ErrLimit reports a variable-length item longer than its declared maximum.
var ErrLimit = errors.New("xdr: item longer than its limit")

// ErrBool reports a boolean that is neither 0 nor 1 (RFC 4506 section 4.4).
var ErrBool = errors.New("xdr: boolean is neither 0 nor 1")

// Pad returns how many zero bytes follow n bytes of opaque data (0 to 3).
func Pad(n int) int { return -n & 3 }

// AppendUint32 appends an unsigned integer.
func AppendUint32(b []byte, v uint32) []byte { return binary.BigEndian.AppendUint32(b, v) }

// AppendUint64 appends an unsigned hyper integer.
func AppendUint64(b []byte, v uint64) []byte { return binary.BigEndian.AppendUint64(b, v) }

// AppendBool appends a boolean.
func AppendBool(b []byte, v bool) []byte {
	if v {
		return AppendUint32(b, 1)
	}
	return AppendUint32(b, 0)
}

// AppendOpaque appends variable-length opaque data: length, bytes, padding.
func AppendOpaque(b, p []byte) []byte {
	b = AppendUint32(b, uint32(len(p)))
	return AppendPad(append(b, p...), len(p))
}

// AppendString appends a string, which XDR encodes as variable-length opaque data.
func AppendString(b []byte, s string) []byte {
	b = AppendUint32(b, uint32(len(s)))
	return AppendPad(append(b, s...), len(s))
}

// AppendPad appends the zero bytes that must follow n bytes of opaque data.
func AppendPad(b []byte, n int) []byte {
	var zero [3]byte
	return append(b, zero[:Pad(n)]...)
}

// Reader walks encoded data in place. The first failure sticks: later reads
// return zero values, so a decoder checks Err once at its end.
type Reader struct {
	b   []byte
	err error
}

// NewReader returns a reader over b, which it does not copy.
func NewReader(b []byte) Reader { return Reader{b: b} }

// Err returns the first failure, or nil.
func (r *Reader) Err() error { return r.err }

// Len returns how many bytes are left.
func (r *Reader) Len() int { return len(r.b) }

// Rest returns the bytes that have not been read.
func (r *Reader) Rest() []byte { return r.b }

func (r *Reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.b = nil
}

// Uint32 reads an unsigned integer.
func (r *Reader) Uint32() uint32 {
	if len(r.b) < 4 {
		r.fail(ErrShort)
		return 0
	}
	v := binary.BigEndian.Uint32(r.b)
	r.b = r.b[4:]
	return v
}

// Uint64 reads an unsigned hyper integer.
func (r *Reader) Uint64() uint64 {
	if len(r.b) < 8 {
		r.fail(ErrShort)
		return 0
	}
	v := binary.BigEndian.Uint64(r.b)
	r.b = r.b[8:]
	return v
}

// Bool reads a boolean.
func (r *Reader) Bool() bool {
	v := r.Uint32()
	if v > 1 {
		r.fail(ErrBool)
	}
	return v == 1
}

// Opaque reads variable-length opaque data of at most limit bytes. The result
// aliases the reader's buffer.
func (r *Reader) Opaque(limit int) []byte {
	n := r.Uint32()
	if uint64(n) > uint64(limit) {
		r.fail(ErrLimit)
		return nil
	}
	return r.Fixed(int(n))
}

// Fixed reads n bytes of fixed-length opaque data and its padding. The result
// aliases the reader's buffer.
func (r *Reader) Fixed(n int) []byte {
	if r.err != nil || len(r.b) < n+Pad(n) {
		r.fail(ErrShort)
		return nil
	}
	p := r.b[:n:n]
	r.b = r.b[n+Pad(n):]
	return p
}
