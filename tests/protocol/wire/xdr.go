package wire

import (
	"encoding/binary"
	"fmt"
)

// Enc builds data in XDR (RFC 4506).
type Enc []byte

// U32 appends unsigned integers.
func (e Enc) U32(v ...uint32) Enc {
	for _, x := range v {
		e = binary.BigEndian.AppendUint32(e, x)
	}
	return e
}

// U64 appends an unsigned hyper integer.
func (e Enc) U64(v uint64) Enc { return binary.BigEndian.AppendUint64(e, v) }

// Opaque appends variable-length opaque data.
func (e Enc) Opaque(b []byte) Enc {
	e = append(e.U32(uint32(len(b))), b...)
	for range -len(b) & 3 {
		e = append(e, 0)
	}
	return e
}

// Str appends a string.
func (e Enc) Str(s string) Enc { return e.Opaque([]byte(s)) }

// Dec reads data in XDR, strictly: what a careful client would reject fails.
// The first failure sticks.
type Dec struct {
	B   []byte // not read yet
	err error
}

func (d *Dec) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf(format, args...)
	}
	d.B = nil
}

func (d *Dec) take(n int) []byte {
	if n > len(d.B) {
		d.fail("%d bytes wanted, %d there", n, len(d.B))
		return nil
	}
	p := d.B[:n]
	d.B = d.B[n:]
	return p
}

// U32 reads an unsigned integer.
func (d *Dec) U32() uint32 {
	if p := d.take(4); p != nil {
		return binary.BigEndian.Uint32(p)
	}
	return 0
}

// U64 reads an unsigned hyper integer.
func (d *Dec) U64() uint64 {
	if p := d.take(8); p != nil {
		return binary.BigEndian.Uint64(p)
	}
	return 0
}

// Bool reads a boolean, which is 0 or 1 (section 4.4).
func (d *Dec) Bool() bool {
	v := d.U32()
	if v > 1 {
		d.fail("boolean %d", v)
	}
	return v == 1
}

// Opaque reads variable-length opaque data, whose padding is zero (section 4.10).
func (d *Dec) Opaque(limit int) []byte {
	n := int(d.U32())
	if n > limit {
		d.fail("%d opaque bytes, at most %d allowed", n, limit)
		return nil
	}
	p := d.take(n)
	for _, z := range d.take(-n & 3) {
		if z != 0 {
			d.fail("padding byte %#x", z)
		}
	}
	return p
}

// End returns the first failure; bytes that nobody has read are one.
func (d *Dec) End() error {
	if d.err == nil && len(d.B) > 0 {
		d.err = fmt.Errorf("%d bytes after the end: % x", len(d.B), d.B[:min(16, len(d.B))])
	}
	return d.err
}
