package sendpath

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// path is a way for a payload.
type path int32

const (
	pathSplice path = iota
	pathUring
	pathCopy
	paths
)

func (p path) String() string { return [...]string{"splice", "uring", "copy"}[p] }

// classes are sizes by power of two: up to 16 KiB, 32 KiB, and so on to 4 MiB.
const (
	classes    = 9
	classFirst = 14 // log2 of 16 KiB
)

// class is what is known of reads of about one size.
type class struct {
	path  atomic.Int32 // the one taken
	reads atomic.Uint64
	// calibrated is what one read costs by each path, as measured at start, in
	// nanoseconds of CPU; 0 is not known. Constant after that.
	calibrated [paths]time.Duration
	// seen is what reads of files have cost since, and samples how many were
	// looked at.
	seen    [paths]atomic.Int64
	samples [paths]atomic.Int64
}

func classOf(n int) int {
	return min(max(bits.Len(uint(n-1))-classFirst, 0), classes-1)
}

func (s *Sender) class(n int) *class { return &s.classes[classOf(n)] }

// classSize is the largest read of class i, in bytes.
func classSize(i int) int { return 1 << (classFirst + i) }

// choose returns the path for a read, and who is to be told what it costs.
func (s *Sender) choose(c *class) (path, sample) {
	p := path(c.path.Load())
	if s.cfg.Mode != Auto || p == pathUring {
		return p, sample{}
	}
	n := c.reads.Add(1)
	if at := n % tryEvery; at >= tryEvery-tryRun {
		p = other(p)
		if at < tryEvery-1 { // only warms up: its buffer or pipe may be new
			return p, sample{}
		}
	} else if n%sampleEvery != 0 {
		return p, sample{}
	}
	return p, beginSample(c, p)
}

// other is the path that is tried against the one taken.
func other(p path) path {
	if p == pathCopy {
		return pathSplice
	}
	return pathCopy
}
