package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"

	"sluice/rpc"
)

// sockets are what the server listens on: TCP and UDP at the same addresses,
// unless systemd chose them.
type sockets struct {
	tcp     []*net.TCPListener
	udp     []*net.UDPConn
	metrics *net.TCPListener // nil unless it was passed to us
	// kept are descriptors of the same sockets, for a process that takes over.
	kept []keptSocket
}

// listen opens the sockets for all addresses, or none. Sockets that this process
// was started with take the place of the addresses.
func listen(addrs []string) (*sockets, error) {
	var s sockets
	if files := inheritedSockets(); len(files) > 0 {
		return adopt(files)
	}
	for _, a := range addrs {
		if err := s.open(a); err != nil {
			s.close()
			return nil, err
		}
	}
	return &s, nil
}

// portTries is how often a free port is tried for both TCP and UDP.
const portTries = 20

func (s *sockets) open(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("--listen %q: must be ADDR:PORT, as 192.0.2.1:2049, [2001:db8::1]:2049 or :2049", addr)
	}
	if ip, err := netip.ParseAddr(host); host != "" && err != nil {
		return fmt.Errorf("--listen %q: %q is not an IP address", addr, host)
	} else if host != "" && ip.Is4() {
		return s.openBoth("4", addr, port)
	} else if host != "" && !ip.IsUnspecified() {
		return s.openBoth("6", addr, port)
	}
	return s.openBoth("", addr, port) // every address, IPv4 and IPv6
}

func (s *sockets) openBoth(family, addr, port string) (err error) {
	for range portTries {
		if err = s.tryBoth(family, addr); err == nil {
			return nil
		}
		if port != "0" {
			break
		}
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w; is another NFS server running? --listen takes another port", err)
	}
	return err
}

func (s *sockets) tryBoth(family, addr string) error {
	var lc net.ListenConfig
	l, err := lc.Listen(context.Background(), "tcp"+family, addr)
	if err != nil {
		return err
	}
	tcp := l.(*net.TCPListener)
	a := tcp.Addr().(*net.TCPAddr)
	pc, err := lc.ListenPacket(context.Background(), "udp"+family, (&net.UDPAddr{IP: a.IP, Port: a.Port, Zone: a.Zone}).String())
	if err != nil {
		tcp.Close()
		return err
	}
	s.tcp = append(s.tcp, tcp)
	s.udp = append(s.udp, pc.(*net.UDPConn))
	return nil
}

func (s *sockets) close() {
	for _, l := range s.tcp {
		l.Close()
	}
	for _, c := range s.udp {
		c.Close()
	}
}

// addrs returns the TCP addresses.
func (s *sockets) addrs() []netip.AddrPort {
	var out []netip.AddrPort
	for _, l := range s.tcp {
		out = append(out, unmap(l.Addr().(*net.TCPAddr).AddrPort()))
	}
	return out
}

func (s *sockets) udpAddrs() []netip.AddrPort {
	var out []netip.AddrPort
	for _, c := range s.udp {
		out = append(out, unmap(c.LocalAddr().(*net.UDPAddr).AddrPort()))
	}
	return out
}

func unmap(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }

// portmapAddrs adds the IPv4 side of sockets that take both families.
func portmapAddrs(addrs []netip.AddrPort) []netip.AddrPort {
	var out []netip.AddrPort
	for _, a := range addrs {
		if a.Addr() == netip.IPv6Unspecified() {
			out = append(out, netip.AddrPortFrom(netip.IPv4Unspecified(), a.Port()))
		}
		out = append(out, a)
	}
	return out
}

// give hands the sockets to the server and keeps descriptors of them.
func (s *sockets) give(srv *rpc.Server) error {
	if err := s.keep(); err != nil {
		return err
	}
	for _, l := range s.tcp {
		if err := srv.Listen(l); err != nil {
			return err
		}
	}
	for _, c := range s.udp {
		if err := srv.ListenPacket(c); err != nil {
			return err
		}
	}
	return nil
}

// join lists addresses for people.
func join(addrs []netip.AddrPort) string {
	var s []string
	for _, a := range addrs {
		s = append(s, a.String())
	}
	return strings.Join(s, " ")
}
