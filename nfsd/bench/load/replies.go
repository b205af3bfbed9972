package load

import (
	"encoding/binary"
	"errors"
	"fmt"

	"sluice/nfsd/bench/client"
	"sluice/rpc/xdr"
)

const (
	markLen      = 4
	lastFragment = 1 << 31
	// fixedHead is a READ reply up to its data, if the verifier is empty and the
	// attributes are there: RPC reply (24), status, attributes (4+84), count, eof,
	// length.
	fixedHead = 24 + 4 + 4 + 84 + 12
	maxHead   = fixedHead + client.MaxVerifier
	fattr3Len = 84
	// slack is by how much a reply may exceed the data asked for: its head, padding,
	// and the listing of a READDIRPLUS.
	slack = 128 << 10
)

var be = binary.BigEndian

var (
	errTooLong  = errors.New("a reply is longer than what was asked for")
	errTooShort = errors.New("a reply ends early")
	errGarbled  = errors.New("a reply is not one, or not to a call that was made")
)

// replies takes a stream of records apart, in pieces of any size. The head of each
// reply is collected and judged; of the data behind it only the length is kept.
type replies struct {
	conn *conn
	max  int // longest record, bytes

	mark  [markLen]byte
	marks int // bytes of mark
	frag  int // bytes of the fragment still to come
	last  bool
	size  int // bytes of the record so far announced

	head   [maxHead]byte
	heads  int // bytes of head
	parsed bool
	slot   *slot
	length int // of the data, bytes
	data   int // bytes of it that have come, and of the padding
}

// discardable is how many bytes come next that only have to be counted.
func (r *replies) discardable() int {
	if !r.parsed || r.conn.verify != nil {
		return 0
	}
	return r.frag
}

// discarded says that so many of them were taken from the socket.
func (r *replies) discarded(n int) error {
	r.data += n
	r.frag -= n
	return r.fragmentEnd()
}

// feed takes received bytes.
func (r *replies) feed(b []byte) error {
	for len(b) > 0 {
		if r.frag == 0 {
			n := copy(r.mark[r.marks:], b)
			r.marks += n
			b = b[n:]
			if r.marks < markLen {
				return nil
			}
			if err := r.fragmentStart(); err != nil {
				return err
			}
			continue
		}
		n := min(len(b), r.frag)
		if err := r.take(b[:n]); err != nil {
			return err
		}
		b = b[n:]
		r.frag -= n
		if err := r.fragmentEnd(); err != nil {
			return err
		}
	}
	return nil
}

func (r *replies) fragmentStart() error {
	m := be.Uint32(r.mark[:])
	r.marks = 0
	r.frag, r.last = int(m&^lastFragment), m&lastFragment != 0
	if r.size += r.frag; r.size > r.max {
		return errTooLong
	}
	return r.fragmentEnd()
}

// fragmentEnd completes the reply if its last fragment has come.
func (r *replies) fragmentEnd() error {
	if r.frag > 0 || !r.last {
		return nil
	}
	if !r.parsed {
		if err := r.parse(); err != nil {
			return err
		}
	}
	if r.slot.next.Count > 0 && r.data != r.length+xdr.Pad(r.length) {
		return fmt.Errorf("%w: %d bytes of data, with padding, are %d", errTooShort, r.length, r.data)
	}
	s := r.slot
	r.last, r.size, r.heads, r.parsed, r.slot, r.length, r.data = false, 0, 0, false, nil, 0, 0
	r.conn.complete(s)
	return nil
}

// take takes bytes of a record: first the head, then data.
func (r *replies) take(b []byte) error {
	if !r.parsed {
		n := copy(r.head[r.heads:r.wanted()], b)
		r.heads += n
		b = b[n:]
		// The verifier's length, once it is known, makes the head longer.
		if r.heads < r.wanted() {
			if len(b) == 0 {
				return nil
			}
			return r.take(b)
		}
		if err := r.parse(); err != nil {
			return err
		}
	}
	return r.content(b)
}

// wanted is how long the head is, as far as is known.
func (r *replies) wanted() int {
	const verifierKnown = 20
	if r.heads < verifierKnown {
		return verifierKnown
	}
	n := int(min(be.Uint32(r.head[16:]), client.MaxVerifier))
	return fixedHead + n + xdr.Pad(n)
}

// parse judges the head: the reply to which call it is, and how it went.
func (r *replies) parse() error {
	r.parsed = true
	x := xdr.NewReader(r.head[:r.heads])
	xid := x.Uint32()
	if r.slot = r.conn.slotOf(xid); r.slot == nil {
		return errGarbled
	}
	next := &r.slot.next
	if err := client.ReplyError(&x, next.Call.Null); err != nil {
		return fmt.Errorf("%w (%s)", err, next)
	}
	if next.Count == 0 {
		return nil
	}
	if x.Bool() {
		x.Fixed(fattr3Len)
	}
	count, _, length := x.Uint32(), x.Uint32(), x.Uint32()
	switch {
	case x.Err() != nil:
		return errTooShort
	case count != length:
		return fmt.Errorf("%w: it says %d bytes and has %d", errGarbled, count, length)
	case count < next.Count:
		return fmt.Errorf("short read: %d bytes came of %s", count, next)
	case count > next.Count:
		return fmt.Errorf("%w: %d bytes came of %s", errTooLong, count, next)
	}
	r.length = int(length)
	return r.content(x.Rest())
}

// content takes bytes behind the head.
func (r *replies) content(b []byte) error {
	at := r.data
	r.data += len(b)
	if r.conn.verify == nil || at >= r.length {
		return nil
	}
	next := &r.slot.next
	return r.conn.verify(next.File, next.Offset+uint64(at), b[:min(len(b), r.length-at)])
}

// String names a call in errors.
func (n *Next) String() string {
	if n.Count == 0 {
		return "the call measured"
	}
	return fmt.Sprintf("%d at offset %d", n.Count, n.Offset)
}
