package rpc

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
)

// fragments encodes a record in pieces of the given lengths (RFC 5531 section 11).
func fragments(pieces ...[]byte) (out []byte) {
	for i, p := range pieces {
		mark := uint32(len(p))
		if i == len(pieces)-1 {
			mark |= 1 << 31
		}
		out = append(binary.BigEndian.AppendUint32(out, mark), p...)
	}
	return out
}

// At every place where a record can be cut, nextRecord asks for more, and for
// no more than there is; with all of it the record comes out.
func TestNextRecordSplit(t *testing.T) {
	a, b, c := []byte("first piece "), []byte("second"), []byte(", third")
	for name, msg := range map[string][]byte{
		"one fragment":        fragments(bytes.Join([][]byte{a, b, c}, nil)),
		"three fragments":     fragments(a, b, c),
		"empty ones too":      fragments(nil, a, nil, nil, b, c, nil),
		"empty ones at first": fragments(nil, nil, nil, a, b, c),
	} {
		for n := range msg {
			rec, used, err := nextRecord(bytes.Clone(msg[:n]))
			if err != nil || used != 0 || rec != nil {
				t.Fatalf("%s, first %d of %d bytes: rec %q, used %d, error %v", name, n, len(msg), rec, used, err)
			}
		}
		behind := append(bytes.Clone(msg), "next record"...)
		rec, used, err := nextRecord(behind)
		if err != nil || used != len(msg) || string(rec) != "first piece second, third" {
			t.Errorf("%s: rec %q, used %d of %d, error %v", name, rec, used, len(msg), err)
		}
		if string(behind[used:]) != "next record" {
			t.Errorf("%s: what is behind has become %q", name, behind[used:])
		}
	}
}

// Every way to cut a record in two and in three fragments.
func TestNextRecordFragmentedEverywhere(t *testing.T) {
	whole := []byte("0123456789abcdef")
	for i := range len(whole) + 1 {
		for j := i; j <= len(whole); j++ {
			rec, _, err := nextRecord(fragments(whole[:i], whole[i:j], whole[j:]))
			if err != nil || !bytes.Equal(rec, whole) {
				t.Fatalf("cut at %d and %d: %q, %v", i, j, rec, err)
			}
		}
	}
}

func TestNextRecordLimits(t *testing.T) {
	half := make([]byte, MaxRecord/2)
	for _, row := range []struct {
		name string
		msg  []byte
		want error
	}{
		{"as long as may be", fragments(make([]byte, MaxRecord)), nil},
		{"as long as may be, in two", fragments(half, make([]byte, MaxRecord-len(half))), nil},
		{"a byte longer", fragments(make([]byte, MaxRecord+1)), errRecordTooLong},
		{"a byte longer, in three", fragments(half, half, make([]byte, MaxRecord-2*len(half)+1)), errRecordTooLong},
		{"a mark of 2^31-1", []byte{0xff, 0xff, 0xff, 0xff}, errRecordTooLong},
		{"fragments without end", bytes.Repeat([]byte{0, 0, 0, 0}, maxFragments+1), errTooManyFragment},
	} {
		if _, _, err := nextRecord(row.msg); !errors.Is(err, row.want) {
			t.Errorf("%s: %v, want %v", row.name, err, row.want)
		}
	}
}

func TestPutMark(t *testing.T) {
	b := make([]byte, 4)
	putMark(b, 0x1234)
	if want := []byte{0x80, 0, 0x12, 0x34}; !bytes.Equal(b, want) {
		t.Errorf("% x, want % x", b, want)
	}
}

func TestNextRecordAllocates(t *testing.T) {
	one, two := fragments([]byte("record")), fragments([]byte("rec"), []byte("ord"))
	b := make([]byte, 64)
	if n := testing.AllocsPerRun(100, func() {
		_, _, _ = nextRecord(one)
		_, _, _ = nextRecord(b[:copy(b, two)])
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// readReference reads a record in the plain way.
func readReference(b []byte) (rec []byte, used int, err error) {
	for n := 0; ; n++ {
		if len(b)-used < 4 {
			return nil, 0, nil
		}
		mark := binary.BigEndian.Uint32(b[used:])
		size := int(mark & 0x7fffffff)
		switch {
		case len(rec)+size > MaxRecord:
			return nil, 0, errRecordTooLong
		case n >= maxFragments:
			return nil, 0, errTooManyFragment
		case len(b)-used-4 < size:
			return nil, 0, nil
		}
		rec = append(rec, b[used+4:used+4+size]...)
		used += 4 + size
		if mark>>31 == 1 {
			return rec, used, nil
		}
	}
}

func FuzzNextRecord(f *testing.F) {
	for _, rec := range capturedCalls(f) {
		f.Add(fragments(rec))
		f.Add(fragments(rec[:8], nil, rec[8:24], rec[24:]))
	}
	f.Add(fragments(nil))
	f.Add([]byte{0x7f, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		wantRec, wantUsed, wantErr := readReference(b)
		got := bytes.Clone(b)
		rec, used, err := nextRecord(got)
		if fmt.Sprint(err) != fmt.Sprint(wantErr) || used != wantUsed || !bytes.Equal(rec, wantRec) {
			t.Fatalf("%d bytes, used %d, error %v; want %d, %d, %v", len(rec), used, err, len(wantRec), wantUsed, wantErr)
		}
		if !bytes.Equal(got[used:], b[used:]) {
			t.Fatal("what is behind the record has changed")
		}
	})
}
