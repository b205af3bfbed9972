package rpc

import (
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// poller is the epoll that all server threads wait on. Connections are
// edge-triggered: an event goes to one thread, and comes again only after
// something new happened or after rearm.
type poller struct{ fd int }

const connEvents = unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET

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

func (p *poller) add(c *Conn) error {
	ev := unix.EpollEvent{Events: connEvents, Fd: int32(c.slot), Pad: int32(c.gen)}
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(p.fd, unix.EPOLL_CTL_ADD, c.fd, &ev))
}

// rearm makes an event at once if the connection is readable or writable, else
// when it becomes so (epoll_ctl(2) EPOLL_CTL_MOD looks at the file anew). The
// event is queued behind those of other connections.
func (p *poller) rearm(c *Conn) {
	ev := unix.EpollEvent{Events: connEvents, Fd: int32(c.slot), Pad: int32(c.gen)}
	// It can fail only for a descriptor that is not there; the caller holds c.mu
	// and has looked at c.closed.
	_ = unix.EpollCtl(p.fd, unix.EPOLL_CTL_MOD, c.fd, &ev)
}

// addListener registers a listening socket or the wake-up descriptor,
// level-triggered. EPOLLEXCLUSIVE would only matter with several epolls.
func (p *poller) addListener(fd, index int) error {
	ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(index), Pad: listenerGen}
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
