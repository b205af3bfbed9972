package rpc

import "time"

// Connections stay with one thread. The balancer moves one now and then, so that
// no thread is busy while another could do part of its work.

const (
	balanceEvery = 100 * time.Millisecond
	// What work costs, in units of about a microsecond of CPU: enough to compare
	// connections with each other.
	callCost     = 2
	bytesPerCost = 6000
	// busyThread is the work in one period from which a thread counts as busy;
	// below it moving connections gains nothing.
	busyThread = uint64(balanceEvery / time.Microsecond / 3)
)

// lightest returns the thread with the fewest connections.
func (s *Server) lightest() *thread {
	best := s.threads[0]
	for _, t := range s.threads[1:] {
		if t.conns.Load() < best.conns.Load() {
			best = t
		}
	}
	return best
}

func (s *Server) balanceLoop(stop <-chan struct{}) {
	if len(s.threads) == 1 {
		return
	}
	tick := time.NewTicker(balanceEvery)
	defer tick.Stop()
	b := balancer{load: make([]uint64, len(s.threads))}
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			b.run(s)
		}
	}
}

// balancer compares the threads and moves one connection if that helps.
type balancer struct {
	load []uint64 // work of the last period by thread
	busy []recent
}

// recent is what a connection cost in the last period.
type recent struct {
	c    *Conn
	home int
	work uint64
}

func (b *balancer) run(s *Server) {
	clear(b.load)
	clear(b.busy) // forget the connections
	b.busy = b.busy[:0]
	s.conns.each(func(c *Conn) {
		total := c.work.Load()
		if w := total - c.balanced; w > 0 {
			c.balanced = total
			c.mu.Lock()
			home := c.home.id
			c.mu.Unlock()
			b.busy = append(b.busy, recent{c, home, w})
			b.load[home] += w
		}
	})
	from, to := 0, 0
	for i, l := range b.load {
		if l > b.load[from] {
			from = i
		}
		if l < b.load[to] {
			to = i
		}
	}
	if b.load[from] >= busyThread {
		if c := b.choose(from, b.load[from]-b.load[to]); c != nil {
			c.moveTo.Store(s.threads[to])
		}
	}
}

// choose picks the connection of a thread whose move evens out a difference
// best, or nil if none removes a quarter of it: moving has its own cost.
func (b *balancer) choose(from int, diff uint64) *Conn {
	var best *Conn
	left := diff - diff/4
	for _, r := range b.busy {
		after := max(diff, 2*r.work) - min(diff, 2*r.work)
		if r.home == from && after < left {
			best, left = r.c, after
		}
	}
	return best
}
