package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Ports below 1024 that a client may take: those that bindresvport(3) uses.
const (
	reservedLow  = 512
	reservedHigh = 1023
)

// dial connects from a reserved port where this process may have one, as servers
// demand it of exports that are not "insecure".
func dial(ctx context.Context, addr netip.AddrPort, timeout time.Duration) (net.Conn, error) {
	d := net.Dialer{Timeout: timeout}
	if os.Geteuid() != 0 {
		return explain(d.DialContext(ctx, "tcp", addr.String()))
	}
	d.Control = reuseAddr
	const ports = reservedHigh - reservedLow + 1
	for i, first := 0, rand.IntN(ports); i < ports; i++ {
		d.LocalAddr = &net.TCPAddr{Port: reservedLow + (first+i)%ports}
		c, err := d.DialContext(ctx, "tcp", addr.String())
		switch {
		case errors.Is(err, unix.EADDRINUSE) || errors.Is(err, unix.EADDRNOTAVAIL):
			continue
		case errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM):
			i = ports
			continue
		}
		return explain(c, err)
	}
	d.LocalAddr = nil
	return explain(d.DialContext(ctx, "tcp", addr.String()))
}

// reuseAddr lets a port be bound again that an earlier connection still holds in
// TIME_WAIT; connect(2) refuses it if the server is the same.
func reuseAddr(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	})
}

// explain takes what net adds off an error.
func explain(c net.Conn, err error) (net.Conn, error) {
	var op *net.OpError
	switch {
	case err == nil:
		return c, nil
	case isTimeout(err):
		return nil, errors.New("no connection: the address does not answer")
	case errors.As(err, &op):
		return nil, fmt.Errorf("no connection: %w", op.Err)
	}
	return nil, err
}

// Dial connects to the server's NFS port and returns the socket, non-blocking.
// The caller closes it; replies not yet received are then thrown away, and the
// port is free at once.
func (s *Server) Dial(ctx context.Context) (int, error) {
	c, err := dial(ctx, netip.AddrPortFrom(s.Addr, s.Port), s.timeout)
	if err != nil {
		return -1, err
	}
	defer c.Close()
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		return -1, err
	}
	fd := -1
	if e := raw.Control(func(orig uintptr) { fd, err = unix.FcntlInt(orig, unix.F_DUPFD_CLOEXEC, 0) }); e != nil || err != nil {
		return -1, errors.Join(e, err)
	}
	// A run may use as many of the few reserved ports as there are; closed like
	// this they do not stay in TIME_WAIT for a minute.
	_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	return fd, nil
}
