package sendpath

import (
	"fmt"
	"runtime"
	"strings"
	"time"
)

// measuredSizes are the sizes that are measured, each for the classes above the
// one before it, the last for all that are larger. Up to InlineRead copying means
// into the batch.
var measuredSizes = []int{16 << 10, 32 << 10, 64 << 10, 256 << 10, 1 << 20}

// In percent, by how much another path must be cheaper than splicing to be taken
// for large reads: less is noise, and splicing leaves the memory's bandwidth to
// others. And by how much splicing must be cheaper than the batch for small ones:
// calibration sends nothing else in between, which is when a batch pays.
const (
	preferSplice = 10
	preferBatch  = 10
)

// Calibrate finds out, with Auto, what a read costs by each path, and takes the
// cheapest for each size. It sends data in the page cache to itself over loopback,
// for calibrateMax at most: which is cheaper depends on how fast this machine
// copies, not on any disk. On an error everything stays as with Splice.
func (s *Sender) Calibrate() error {
	if s.cfg.Mode != Auto {
		return nil
	}
	done := make(chan error)
	go func() {
		// A thread of its own, so that what it shares a thread with is not measured.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		done <- s.measureAll()
	}()
	err := <-done
	if err == nil {
		s.decide()
	}
	return err
}

// measureAll measures every size by every path, in rounds while there is time.
func (s *Sender) measureAll() error {
	// Another sender, so that the counters are not those of the service. That the
	// kernel has no rings is no news here.
	trial := &Sender{cfg: s.cfg, io: s.io}
	if r, err := trial.startRing(0); err == nil {
		trial.rings = []*ring{r}
		defer r.close()
	}
	b, err := newBench(trial)
	if err != nil {
		return err
	}
	defer b.close()
	end := time.Now().Add(calibrateMax)
	for round := range calibrateRounds {
		for _, size := range measuredSizes {
			if time.Now().After(end) {
				return outOfTime(round)
			}
			if err := s.measure(b, size); err != nil {
				return err
			}
		}
	}
	return nil
}

// measure keeps the least that each path has cost.
func (s *Sender) measure(b *bench, size int) error {
	c := s.class(size)
	for p := range paths {
		if p == pathUring && len(b.s.rings) == 0 {
			continue
		}
		cost, err := b.measure(p, size)
		if err != nil {
			return err
		}
		if c.calibrated[p] == 0 || cost < c.calibrated[p] {
			c.calibrated[p] = cost
		}
	}
	return nil
}

// outOfTime is an error unless everything has been measured once.
func outOfTime(rounds int) error {
	if rounds > 0 {
		return nil
	}
	return fmt.Errorf("not done in %v", calibrateMax)
}

// decide takes the cheapest path for each class.
func (s *Sender) decide() {
	limit := measuredSizes[0] // always into the batch
	for _, size := range measuredSizes {
		if c := s.class(size); size <= InlineRead && c.calibrated[pathCopy]*100 <= c.calibrated[pathSplice]*(100+preferBatch) {
			limit = size
		}
	}
	s.small.Store(int32(limit))
	ringed := false
	for i := range s.classes {
		p := s.measured(i).cheapest()
		if p == pathUring {
			ringed = true
		}
		s.classes[i].path.Store(int32(p))
	}
	if ringed && !s.openRings() {
		s.abandonRings()
	}
}

// measured returns the class that was measured for class i.
func (s *Sender) measured(i int) *class {
	for _, size := range measuredSizes {
		if size >= classSize(i) {
			return s.class(size)
		}
	}
	return s.class(measuredSizes[len(measuredSizes)-1])
}

// cheapest returns the path that costs least.
func (c *class) cheapest() path {
	best, least := pathSplice, c.calibrated[pathSplice]*(100-preferSplice)/100
	for _, p := range []path{pathUring, pathCopy} {
		if cost := c.calibrated[p]; cost > 0 && cost < least {
			best, least = p, cost
		}
	}
	return best
}

// Calibrated returns what Calibrate found, for the log.
func (s *Sender) Calibrated() string {
	var all []string
	for _, size := range measuredSizes {
		if c := s.class(size); c.calibrated[pathSplice] > 0 {
			all = append(all, fmt.Sprintf("%dK copy %v splice %v uring %v",
				size>>10, c.calibrated[pathCopy], c.calibrated[pathSplice], c.calibrated[pathUring]))
		}
	}
	return strings.Join(all, "; ")
}
