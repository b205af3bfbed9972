package rpc

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// peerCounts bounds the connections of each client, so that one of them cannot
// take the room of all.
type peerCounts struct {
	limit int

	mu sync.Mutex
	n  map[netip.Addr]int
}

// peerKey is what counts as one client: an IPv4 address, or the /64 that an IPv6
// client chooses its addresses from.
func peerKey(a netip.Addr) netip.Addr {
	if a.Is6() {
		p, _ := a.WithZone("").Prefix(64) // 64 is a length that IPv6 has
		return p.Addr()
	}
	return a
}

// take counts a connection; false means that the client has as many as it may.
func (p *peerCounts) take(a netip.Addr) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := peerKey(a)
	if p.n[k] >= p.limit {
		return false
	}
	p.n[k]++
	return true
}

func (p *peerCounts) give(a netip.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := peerKey(a)
	if p.n[k]--; p.n[k] <= 0 {
		delete(p.n, k)
	}
}

// setPatience has the kernel end the connection of a peer that takes no data for
// the time given, whether it has vanished or keeps its window shut (tcp(7),
// TCP_USER_TIMEOUT; the second since Linux 4.10).
func setPatience(fd int, d time.Duration) {
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
}

// patienceLoop ends connections whose peers have begun a call and do not finish
// it.
func (s *Server) patienceLoop(stop <-chan struct{}) {
	tick := time.NewTicker(max(s.cfg.PeerTimeout/4, 10*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case now := <-tick.C:
			s.conns.each(func(c *Conn) { c.checkPatience(now, s.cfg.PeerTimeout) })
		}
	}
}

// checkPatience shuts the connection if it has had a part of a call, and none
// was completed, for as long as the limit.
func (c *Conn) checkPatience(now time.Time, limit time.Duration) {
	work := c.work.Load()
	if !c.partial.Load() || c.partialSince.IsZero() || work != c.partialWork {
		c.partialSince, c.partialWork = now, work
		return
	}
	if now.Sub(c.partialSince) < limit {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.srv.stalled.Add(1)
		_ = unix.Shutdown(c.fd, unix.SHUT_RDWR) // its thread sees the end and closes it
	}
}
