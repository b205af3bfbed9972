package rpc

import (
	"slices"

	"golang.org/x/sys/unix"
)

// Placement says where a thread runs. The zero value is anywhere, under the usual
// name.
type Placement struct {
	// Name is the OS thread's, at most 15 characters.
	Name string
	// CPUs are those that the thread stays on, ascending; nil means any. Server
	// threads with the same CPUs are a pool: they serve the connections whose
	// packets arrive on these, and work is balanced among them.
	CPUs []int
	// Enter runs on the thread, which is locked to its goroutine and ends with it,
	// before it serves; buffers are memory that it keeps, with nothing in it yet. May
	// be nil.
	Enter func(buffers ...[]byte)
}

// begin names the calling thread and has it go to its place.
func (p Placement) begin(name string, buffers ...[]byte) {
	if p.Name != "" {
		name = p.Name
	}
	setThreadName(name)
	if p.Enter != nil {
		p.Enter(buffers...)
	}
}

// NameThread names the calling OS thread (prctl(2), PR_SET_NAME: at most 15
// characters).
func NameThread(name string) { setThreadName(name) }

// pool is the server threads of one set of CPUs.
type pool struct {
	cpus    []int // nil: any
	threads []*thread
}

// addToPool puts a thread into the pool of its CPUs.
func (s *Server) addToPool(t *thread) {
	for _, p := range s.pools {
		if slices.Equal(p.cpus, t.place.CPUs) {
			p.threads = append(p.threads, t)
			t.pool = p
			return
		}
	}
	t.pool = &pool{cpus: t.place.CPUs, threads: []*thread{t}}
	s.pools = append(s.pools, t.pool)
}

// poolFor returns the pool to serve a connection: that of the CPU which last
// handled a packet of it (SO_INCOMING_CPU, socket(7)); the first if there is none.
func (s *Server) poolFor(fd int) *pool {
	if len(s.pools) == 1 {
		return s.pools[0]
	}
	cpu, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_INCOMING_CPU)
	if err == nil {
		for _, p := range s.pools {
			if _, found := slices.BinarySearch(p.cpus, cpu); found {
				return p
			}
		}
	}
	return s.pools[0]
}

// choose returns the thread to be the home of a new connection: the first that is
// not busy.
func (p *pool) choose() *thread {
	best := p.threads[0]
	for _, t := range p.threads {
		if t.share() < busyShare {
			return t
		}
		if t.share() < best.share() {
			best = t
		}
	}
	return best
}

// busiest returns the thread that used most of a CPU in the last period.
func (p *pool) busiest() *thread {
	return slices.MaxFunc(p.threads, func(a, b *thread) int { return int(a.sharePercent.Load() - b.sharePercent.Load()) })
}
