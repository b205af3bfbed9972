package rpc

import (
	"encoding/binary"
	"errors"
)

// Record marking (RFC 5531 section 11): a record is a run of fragments, each
// behind a four-byte mark whose top bit says that it is the last.
const (
	markLen      = 4
	lastFragment = 1 << 31
)

var (
	errRecordTooLong   = errors.New("record longer than the server takes")
	errTooManyFragment = errors.New("record in too many fragments")
)

// nextRecord finds the first record in b. A record in one fragment is returned
// in place; one in several is joined in place, by moving later fragments down
// over the marks. used is how much of b the record took; with used 0 and no
// error the record is not complete yet.
func nextRecord(b []byte) (rec []byte, used int, err error) {
	size, fragments := 0, 0 // of the record so far
	for {
		if len(b)-used < markLen {
			return nil, 0, nil
		}
		mark := binary.BigEndian.Uint32(b[used:])
		n := int(mark &^ lastFragment)
		if size += n; size > MaxRecord {
			return nil, 0, errRecordTooLong
		}
		if fragments++; fragments > maxFragments {
			return nil, 0, errTooManyFragment
		}
		if len(b)-used-markLen < n {
			return nil, 0, nil
		}
		used += markLen + n
		if mark&lastFragment == 0 {
			continue
		}
		if fragments == 1 {
			return b[markLen:used], used, nil
		}
		return join(b, used), used, nil
	}
}

// join moves the fragments of the complete record in b[:used] together.
func join(b []byte, used int) []byte {
	end := markLen
	for at := 0; at < used; {
		n := int(binary.BigEndian.Uint32(b[at:]) &^ lastFragment)
		if at > 0 {
			copy(b[end:], b[at+markLen:at+markLen+n])
		}
		end += n
		at += markLen + n
	}
	return b[markLen:end]
}

// PutMark makes rec, a record mark and what follows it, a record of n bytes more
// in a single fragment.
func PutMark(rec []byte, n int) { putMark(rec, n) }

// putMark writes the mark of a record of n bytes in a single fragment.
func putMark(b []byte, n int) { binary.BigEndian.PutUint32(b, lastFragment|uint32(n)) }
