package load

import (
	"sync/atomic"

	"sluice/nfsd/bench/client"
)

// Next is a call to make.
type Next struct {
	Call client.Call
	// Offset and Count are of a READ, whose reply must hold exactly Count bytes.
	Offset uint64
	Count  uint32
	// File is the number of the file that is read.
	File int
}

// Source says which call comes next; connections take from it in turn. It is safe
// for concurrent use.
type Source interface {
	// Next returns false when there are no more.
	Next() (Next, bool)
}

// Repeat makes one and the same call so many times; 0 means without end.
type Repeat struct {
	Call  client.Call
	Calls uint64
	taken atomic.Uint64
}

// Next implements Source.
func (r *Repeat) Next() (Next, bool) {
	if r.Calls > 0 && r.taken.Add(1) > r.Calls {
		return Next{}, false
	}
	return Next{Call: r.Call}, true
}
