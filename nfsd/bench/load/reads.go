package load

import (
	"math/rand/v2"
	"slices"
	"sync/atomic"

	"sluice/nfsd/bench/client"
)

// File is a file to read.
type File struct {
	Call client.Call // Server.Read of it
	Size uint64      // bytes to read, from its beginning
}

// ReadOptions say in which order files are read.
type ReadOptions struct {
	Files []File
	RSize uint32 // bytes a READ
	// Streams divides each file into so many parts that are read side by side, as so
	// many readers would; the files are read side by side in any case.
	Streams int
	// Shuffle reorders the reads inside windows of so many, as a client with several
	// threads does; 0 and 1 keep the order.
	Shuffle int
	// Loops is how many times to read it all; 0 means without end.
	Loops int
}

// stream is a part of a file, read from its beginning to its end.
type stream struct {
	file   int
	start  uint64 // in reads
	blocks uint64
}

// segment is a stretch of the sequence in which the same streams take turns,
// until the shortest of them ends.
type segment struct {
	first uint64 // number of its first read
	row   uint64 // how many reads of each stream came before
	live  []int  // streams
}

// Reads is a Source of READs.
type Reads struct {
	o        ReadOptions
	streams  []stream
	segments []segment
	perLoop  uint64 // reads
	order    []int  // inside a window
	taken    atomic.Uint64
}

// NewReads makes a Reads. The options must be valid: every File has a Size and
// RSize is not 0.
func NewReads(o ReadOptions) *Reads {
	r := &Reads{o: o}
	for i, f := range o.Files {
		blocks := (f.Size + uint64(o.RSize) - 1) / uint64(o.RSize)
		parts := min(uint64(max(o.Streams, 1)), blocks)
		for p := range parts {
			from, to := blocks*p/parts, blocks*(p+1)/parts
			r.streams = append(r.streams, stream{file: i, start: from, blocks: to - from})
			r.perLoop += to - from
		}
	}
	r.divide()
	if o.Shuffle > 1 {
		// The same order in every run, so that runs can be compared.
		r.order = rand.New(rand.NewPCG(1, 2)).Perm(o.Shuffle)
	}
	return r
}

// divide makes the segments.
func (r *Reads) divide() {
	live := make([]int, len(r.streams))
	for i := range live {
		live[i] = i
	}
	var first, row uint64
	for len(live) > 0 {
		r.segments = append(r.segments, segment{first: first, row: row, live: live})
		shortest := r.streams[slices.MinFunc(live, func(a, b int) int {
			return int(r.streams[a].blocks) - int(r.streams[b].blocks)
		})].blocks
		first += uint64(len(live)) * (shortest - row)
		row = shortest
		live = slices.DeleteFunc(slices.Clone(live), func(i int) bool { return r.streams[i].blocks <= row })
	}
}

// Total is how many bytes will be read; 0 if there is no end.
func (r *Reads) Total() uint64 {
	var sum uint64
	for _, f := range r.o.Files {
		sum += f.Size
	}
	return sum * uint64(r.o.Loops)
}

// Next implements Source.
func (r *Reads) Next() (Next, bool) {
	n := r.taken.Add(1) - 1
	if r.o.Loops > 0 && n >= r.perLoop*uint64(r.o.Loops) {
		return Next{}, false
	}
	return r.at(r.shuffled(n % r.perLoop)), true
}

// shuffled moves the n-th read of a loop inside its window. A window that the end
// of the loop cuts short keeps its order.
func (r *Reads) shuffled(n uint64) uint64 {
	size := uint64(len(r.order))
	if size == 0 || n/size*size+size > r.perLoop {
		return n
	}
	window, i := n/size, n%size
	return window*size + uint64(r.order[(i+window)%size])
}

// at is the n-th read in sequence.
func (r *Reads) at(n uint64) Next {
	i, exact := slices.BinarySearchFunc(r.segments, n, func(s segment, n uint64) int {
		switch {
		case s.first < n:
			return -1
		case s.first > n:
			return 1
		}
		return 0
	})
	if !exact {
		i--
	}
	s := r.segments[i]
	n -= s.first
	live := uint64(len(s.live))
	st := r.streams[s.live[n%live]]
	off := (st.start + s.row + n/live) * uint64(r.o.RSize)
	f := r.o.Files[st.file]
	return Next{Call: f.Call, Offset: off, Count: uint32(min(uint64(r.o.RSize), f.Size-off)), File: st.file}
}
