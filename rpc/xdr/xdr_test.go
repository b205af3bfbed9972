package xdr

import (
	"bytes"
	"errors"
	"testing"
)

// The expected bytes are RFC 4506's own layouts (sections 4.2, 4.4, 4.5, 4.10)
// and its worked example in section 7.
func TestAppend(t *testing.T) {
	for _, c := range []struct {
		name      string
		got, want []byte
	}{
		{"uint32", AppendUint32(nil, 0x01020304), []byte{1, 2, 3, 4}},
		{"uint64", AppendUint64(nil, 0x0102030405060708), []byte{1, 2, 3, 4, 5, 6, 7, 8}},
		{"true", AppendBool(nil, true), []byte{0, 0, 0, 1}},
		{"false", AppendBool(nil, false), []byte{0, 0, 0, 0}},
		{"empty", AppendOpaque(nil, nil), []byte{0, 0, 0, 0}},
		{"RFC 4506 section 7 filename", AppendString(nil, "sillyprog"),
			[]byte{0, 0, 0, 9, 's', 'i', 'l', 'l', 'y', 'p', 'r', 'o', 'g', 0, 0, 0}},
		{"RFC 4506 section 7 owner", AppendOpaque(nil, []byte("john")), []byte{0, 0, 0, 4, 'j', 'o', 'h', 'n'}},
		{"RFC 4506 section 7 data", AppendOpaque(nil, []byte("(quit)")),
			[]byte{0, 0, 0, 6, '(', 'q', 'u', 'i', 't', ')', 0, 0}},
	} {
		if !bytes.Equal(c.got, c.want) {
			t.Errorf("%s: got % x, want % x", c.name, c.got, c.want)
		}
	}
}

func TestReaderTruncated(t *testing.T) {
	whole := AppendOpaque(AppendBool(AppendUint64(AppendUint32(nil, 7), 9), true), []byte("abcde"))
	read := func(b []byte) error {
		r := NewReader(b)
		r.Uint32()
		r.Uint64()
		r.Bool()
		r.Opaque(5)
		return r.Err()
	}
	if err := read(whole); err != nil {
		t.Fatalf("whole data: %v", err)
	}
	for n := range whole {
		if err := read(whole[:n]); !errors.Is(err, ErrShort) {
			t.Errorf("cut at %d: got %v, want ErrShort", n, err)
		}
	}
}

func TestReaderRejects(t *testing.T) {
	r := NewReader([]byte{0, 0, 0, 2})
	if r.Bool(); !errors.Is(r.Err(), ErrBool) {
		t.Errorf("boolean 2: got %v", r.Err())
	}
	r = NewReader([]byte{0xff, 0xff, 0xff, 0xff})
	if r.Opaque(64); !errors.Is(r.Err(), ErrLimit) {
		t.Errorf("length 2^32-1: got %v", r.Err())
	}
	if r.Uint32() != 0 || r.Len() != 0 {
		t.Error("a failed reader still yields data")
	}
}

func FuzzReader(f *testing.F) {
	f.Add(AppendString(nil, "sillyprog"), uint16(9))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff}, uint16(400))
	f.Fuzz(func(t *testing.T, b []byte, most uint16) {
		limit := int(most) // limits are constants of the callers, never negative
		r := NewReader(b)
		p := r.Opaque(limit)
		if r.Err() != nil {
			return
		}
		if len(p) > limit {
			t.Fatalf("%d bytes past the limit %d", len(p), limit)
		}
		if got := AppendOpaque(nil, p); len(got) != len(b)-r.Len() {
			t.Fatalf("read %d bytes, encodes to %d", len(b)-r.Len(), len(got))
		}
	})
}
