package sendpath

import (
	"time"

	"golang.org/x/sys/unix"
)

// With Auto, a few of the large reads are timed, and a few of these take the
// other path. So whatever makes splicing dear, a kernel that copies where it used
// not to or a file system that never did otherwise, is seen on the files and
// clients there are, and the path changes.

// sample is a read whose CPU time is measured; class nil is none.
type sample struct {
	class *class
	path  path
	tid   int
	begin int64 // thread CPU time in nanoseconds
}

func beginSample(c *class, p path) sample {
	return sample{class: c, path: p, tid: unix.Gettid(), begin: threadCPU()}
}

// threadCPU returns the CPU time of the calling thread in nanoseconds.
func threadCPU() int64 {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts) != nil {
		return 0
	}
	return ts.Nano()
}

// end counts the sample if all was sent at once, by the thread that began.
func (m *sample) end(s *Sender, all bool) {
	if all && m.tid == unix.Gettid() {
		m.class.saw(m.path, threadCPU()-m.begin)
		s.judge(m.class)
	}
	*m = sample{}
}

// saw moves the average.
func (c *class) saw(p path, cost int64) {
	if c.samples[p].Add(1) == 1 {
		c.seen[p].Store(cost)
		return
	}
	old := c.seen[p].Load()
	c.seen[p].Store(old + (cost-old)/sampleWeight)
}

// judge changes the path of a class if the other has turned out much cheaper.
func (s *Sender) judge(c *class) {
	now := path(c.path.Load())
	alt := other(now)
	if c.samples[now].Load() < samplesMin || c.samples[alt].Load() < samplesMin {
		return
	}
	cost, altCost := c.seen[now].Load(), c.seen[alt].Load()
	if altCost*(100+betterBy) >= cost*100 || !c.path.CompareAndSwap(int32(now), int32(alt)) {
		return
	}
	// Begin anew, so that it does not change back on what was seen before.
	c.samples[now].Store(0)
	c.samples[alt].Store(0)
	if alt == pathCopy {
		s.remark("splicing has become dearer than copying; copied from now on",
			"size", s.sizeOf(c), "splice", time.Duration(cost), "copy", time.Duration(altCost))
		return
	}
	s.cfg.Log.Info("send path: splicing is cheaper again", "size", s.sizeOf(c), "splice", time.Duration(altCost), "copy", time.Duration(cost))
}

// sizeOf returns the largest read of a class, in bytes.
func (s *Sender) sizeOf(c *class) int {
	for i := range s.classes {
		if c == &s.classes[i] {
			return classSize(i)
		}
	}
	return 0
}
