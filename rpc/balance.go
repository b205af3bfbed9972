package rpc

import (
	"cmp"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Connections stay with one thread, and as few threads as can do the work have
// them: a new one goes to the first thread of its pool that is not busy. The
// balancer moves some when a thread is busy and a CPU of the pool is idle. While no CPU is idle a second
// busy thread only takes turns with the first, and both with the clients where
// these are on the same machine: 1 MiB reads over 4 connections on two CPUs that
// they fill cost 190 ms of CPU per GB on one thread, 235 on two.

const (
	balanceEvery = 100 * time.Millisecond
	// busyShare is the part of a CPU from which a thread counts as busy, and
	// idleShare the part that must be idle for its connections to be spread.
	busyShare = 0.6
	idleShare = 0.3
	// steerEvery is after how many periods the balancer looks where packets arrive.
	steerEvery = 5
	// movesMax bounds the connections moved at once.
	movesMax = 64
	// What work costs, in units of about a microsecond of CPU: enough to compare
	// connections with each other.
	callCost     = 2
	bytesPerCost = 6000
)

// share is the part of a CPU that the thread used in the last period.
func (t *thread) share() float64 { return float64(t.sharePercent.Load()) / 100 }

func (s *Server) balanceLoop(stop <-chan struct{}) {
	if len(s.threads) == 1 {
		return
	}
	tick := time.NewTicker(balanceEvery)
	defer tick.Stop()
	b := balancer{srv: s, used: make([]time.Duration, len(s.threads)), work: make([]uint64, len(s.threads)),
		idle: make([]time.Duration, len(s.pools))}
	for {
		select {
		case <-stop:
			return
		case now := <-tick.C:
			b.run(now)
		}
	}
}

// balancer is the state of balanceLoop.
type balancer struct {
	srv  *Server
	last time.Time
	used []time.Duration // CPU time of each thread up to now
	idle []time.Duration // CPU time that nobody used, up to now, by pool
	turn int
	// Of the last period:
	work []uint64 // by thread
	busy []recent
}

// recent is what a connection cost in the last period.
type recent struct {
	c    *Conn
	home int
	work uint64
}

func (b *balancer) run(now time.Time) {
	period := now.Sub(b.last)
	b.last = now
	b.measureThreads(period)
	stat, _ := os.ReadFile("/proc/stat")
	measured := false
	for i, p := range b.srv.pools {
		before := b.idle[i]
		b.idle[i] = idleTime(string(stat), p.cpus)
		idle := float64(b.idle[i]-before) / float64(period)
		from := p.busiest()
		if len(p.threads) == 1 || from.share() < busyShare || idle < idleShare {
			continue
		}
		if !measured {
			b.measureConns()
			measured = true
		}
		b.move(from.id, b.leastWork(p))
	}
	if b.turn++; b.turn%steerEvery == 0 {
		b.steer()
	}
}

// leastWork returns the thread of a pool with the least work.
func (b *balancer) leastWork(p *pool) int {
	return slices.MinFunc(p.threads, func(x, y *thread) int { return cmp.Compare(b.work[x.id], b.work[y.id]) }).id
}

// measureThreads finds out how busy the threads are.
func (b *balancer) measureThreads(period time.Duration) {
	for i, t := range b.srv.threads {
		used := threadTime(int(t.tid.Load()))
		t.sharePercent.Store(int32(100 * (used - b.used[i]) / max(period, 1)))
		b.used[i] = used
	}
}

// steer moves connections to the pool where their packets arrive, when they did so
// the last time too: interrupts move, and so do clients on this machine.
func (b *balancer) steer() {
	if len(b.srv.pools) == 1 {
		return
	}
	b.srv.conns.each(func(c *Conn) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.closed {
			return
		}
		p := b.srv.poolFor(c.fd)
		if p != c.home.pool && p == c.arrives {
			c.moveTo.Store(p.choose())
		}
		c.arrives = p
	})
}

// measureConns finds out who made the work.
func (b *balancer) measureConns() {
	clear(b.work)
	clear(b.busy) // forget the connections
	b.busy = b.busy[:0]
	b.srv.conns.each(func(c *Conn) {
		total := c.work.Load()
		if w := total - c.balanced; w > 0 {
			c.balanced = total
			c.mu.Lock()
			home := c.home.id
			c.mu.Unlock()
			b.busy = append(b.busy, recent{c, home, w})
			b.work[home] += w
		}
	})
}

// move gives connections of one thread to another until they have about as much
// work. A small difference is not worth the move.
func (b *balancer) move(from, to int) {
	diff := b.work[from] - b.work[to]
	if b.work[from] < b.work[to] || diff < b.work[from]/4 {
		return
	}
	moves := 0
	for _, r := range b.busy {
		if r.home == from && 2*r.work <= diff && moves < movesMax {
			r.c.moveTo.Store(b.srv.threads[to])
			diff -= 2 * r.work
			moves++
		}
	}
}

// threadTime returns the CPU time of a thread of this process, by the clock that
// the kernel has for each (clock_getcpuclockid(3) describes the number).
func threadTime(tid int) time.Duration {
	var ts unix.Timespec
	const perThread, sched = 4, 2
	if tid == 0 || unix.ClockGettime(int32(^tid<<3|perThread|sched), &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// idleTime returns how long CPUs have been idle, all together: the fourth and
// fifth figure of their lines in /proc/stat, in ticks of 10 ms (proc(5)). No CPUs
// means all of the machine.
func idleTime(stat string, cpus []int) time.Duration {
	var ticks uint64
	for line := range strings.Lines(stat) {
		name, figures, _ := strings.Cut(line, " ")
		number, isCPU := strings.CutPrefix(name, "cpu")
		if !isCPU {
			break
		}
		if number != "" {
			cpu, err := strconv.Atoi(number)
			if _, found := slices.BinarySearch(cpus, cpu); err != nil || !found {
				continue
			}
		} else if cpus != nil {
			continue
		}
		if f := strings.Fields(figures); len(f) > 4 {
			idle, _ := strconv.ParseUint(f[3], 10, 64)
			wait, _ := strconv.ParseUint(f[4], 10, 64)
			ticks += idle + wait
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
