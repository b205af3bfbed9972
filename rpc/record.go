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
// error the record is not complete yet, and need is how long b must at least
// become.
func nextRecord(b []byte) (rec []byte, used, need int, err error) {
	at, end, fragments := 0, 0, 0 // next mark; end of the joined record
	for {
		if len(b)-at < markLen {
			return nil, 0, at + markLen, nil
		}
		mark := binary.BigEndian.Uint32(b[at:])
		n := int(mark &^ lastFragment)
		if at == 0 {
			end = markLen
		}
		if end-markLen+n > MaxRecord {
			return nil, 0, 0, errRecordTooLong
		}
		if fragments++; fragments > maxFragments {
			return nil, 0, 0, errTooManyFragment
		}
		if len(b)-at-markLen < n {
			return nil, 0, at + markLen + n, nil
		}
		last := mark&lastFragment != 0
		if last && fragments == 1 {
			return b[markLen : markLen+n], markLen + n, 0, nil
		}
		if !last {
			at, end = at+markLen+n, end+n
			continue
		}
		return join(b, at+markLen+n), at + markLen + n, 0, nil
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

// putMark writes the mark of a record of n bytes in a single fragment.
func putMark(b []byte, n int) { binary.BigEndian.PutUint32(b, lastFragment|uint32(n)) }
