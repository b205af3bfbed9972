package rpc

import (
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// poller is a server thread's epoll. A connection belongs to one thread, its
// home, and is in that thread's epoll alone, level-triggered. So its data stays
// in one CPU's caches, a call that arrives during a visit wakes nobody, and what
// the connection waits for is changed only when it becomes full or is so no
// longer. (One epoll for all threads moved busy connections between CPUs and cost
// 40 % more CPU per byte.)
type poller struct{ fd int }

// listenerGen marks events of listeners; connections count from 1.
const listenerGen = 0

func newPoller() (*poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	return &poller{fd}, nil
}

func (p *poller) wait(events []unix.EpollEvent) (int, error) {
	return unix.EpollWait(p.fd, events, -1)
}

// add registers a connection that waits for events.
func (p *poller) add(c *Conn, events uint32) error {
	ev := c.event(events)
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(p.fd, unix.EPOLL_CTL_ADD, c.fd, &ev))
}

// arm changes what a connection waits for. The caller holds c.mu and has looked
// at c.closed, so the descriptor is there and the call cannot fail.
func (p *poller) arm(c *Conn, events uint32) {
	ev := c.event(events)
	_ = unix.EpollCtl(p.fd, unix.EPOLL_CTL_MOD, c.fd, &ev)
}

// remove takes a connection out; the same holds as for arm.
func (p *poller) remove(c *Conn) { _ = unix.EpollCtl(p.fd, unix.EPOLL_CTL_DEL, c.fd, nil) }

func (c *Conn) event(events uint32) unix.EpollEvent {
	return unix.EpollEvent{Events: events, Fd: int32(c.slot), Pad: int32(c.gen)}
}

// addListener registers a listening socket, of which a connection wakes one
// thread.
func (p *poller) addListener(fd, index int) error {
	return p.addShared(fd, index, unix.EPOLLIN|unix.EPOLLEXCLUSIVE)
}

// addWake registers the wake-up descriptor, which wakes every thread.
func (p *poller) addWake(fd, index int) error { return p.addShared(fd, index, unix.EPOLLIN) }

func (p *poller) addShared(fd, index int, events uint32) error {
	ev := unix.EpollEvent{Events: events, Fd: int32(index), Pad: listenerGen}
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(p.fd, unix.EPOLL_CTL_ADD, fd, &ev))
}

// connTable finds connections by slot and generation, so that an event of a
// connection that has gone does not reach its successor.
type connTable struct {
	slots []atomic.Pointer[Conn]

	mu   sync.Mutex
	free []uint32
	gen  uint32
	used int
}

func newConnTable(n int) *connTable {
	t := &connTable{slots: make([]atomic.Pointer[Conn], n)}
	for i := n - 1; i >= 0; i-- {
		t.free = append(t.free, uint32(i))
	}
	return t
}

// put gives the connection a slot; false means that there is none.
func (t *connTable) put(c *Conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.free) == 0 {
		return false
	}
	c.slot = t.free[len(t.free)-1]
	t.free = t.free[:len(t.free)-1]
	if t.gen++; t.gen == listenerGen {
		t.gen++
	}
	c.gen = t.gen
	t.used++
	t.slots[c.slot].Store(c)
	return true
}

func (t *connTable) get(slot, gen uint32) *Conn {
	if c := t.slots[slot].Load(); c != nil && c.gen == gen {
		return c
	}
	return nil
}

func (t *connTable) remove(c *Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.slots[c.slot].Store(nil)
	t.free = append(t.free, c.slot)
	t.used--
}

func (t *connTable) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.used
}

// each calls f for every connection.
func (t *connTable) each(f func(*Conn)) {
	for i := range t.slots {
		if c := t.slots[i].Load(); c != nil {
			f(c)
		}
	}
}
