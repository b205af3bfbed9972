package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"sluice/rpc/xdr"
)

const (
	portmapPort    = 111
	nfsPort        = 2049
	portmapTimeout = 2 * time.Second
	ipprotoTCP     = 6
)

// Server is a server whose ports are known.
type Server struct {
	Addr        netip.Addr
	Port, Mount uint16 // of NFS and MOUNT
	cred        []byte
	timeout     time.Duration
}

// Find looks for the server that t names. A port in t is where NFS is, and MOUNT
// too if it answers there. Ports that are not given are the portmapper's, or 2049
// where no portmapper answers. timeout bounds each call.
func Find(ctx context.Context, t Target, timeout time.Duration) (*Server, error) {
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", t.Host)
	if err != nil {
		return nil, fmt.Errorf("%s: unknown host: %w", t.Host, err)
	}
	s := &Server{cred: credential(), timeout: timeout}
	for _, a := range addrs {
		s.Addr = a.Unmap()
		if err = s.findPorts(ctx, t); err == nil {
			return s, nil
		}
	}
	return nil, err
}

func (s *Server) findPorts(ctx context.Context, t Target) error {
	s.Port, s.Mount = t.Port, t.MountPort
	if s.Port == 0 {
		s.Port = s.getport(ctx, progNFS, nfsPort)
	}
	if err := s.ping(ctx, s.Port, progNFS); err != nil {
		return fmt.Errorf("NFS version 3 at %s: %w", netip.AddrPortFrom(s.Addr, s.Port), err)
	}
	if s.Mount != 0 {
		return nil
	}
	err := s.ping(ctx, s.Port, progMount)
	if err != nil {
		if s.Mount = s.getport(ctx, progMount, 0); s.Mount != 0 {
			return nil
		}
	}
	if errors.Is(err, errUnavailable) {
		err = fmt.Errorf("not there, nor known to a portmapper at %s; name its port with ?mountport=",
			netip.AddrPortFrom(s.Addr, portmapPort))
	}
	s.Mount = s.Port
	if err != nil {
		return fmt.Errorf("MOUNT version 3 at %s: %w", netip.AddrPortFrom(s.Addr, s.Port), err)
	}
	return nil
}

// getport asks the portmapper where a program is; otherwise is the answer where
// there is none.
func (s *Server) getport(ctx context.Context, prog uint32, otherwise uint16) uint16 {
	c, err := s.connect(ctx, portmapPort, min(portmapTimeout, s.timeout))
	if err != nil {
		return otherwise
	}
	defer c.Close()
	var args []byte
	for _, v := range []uint32{prog, version3, ipprotoTCP, 0} {
		args = xdr.AppendUint32(args, v)
	}
	r, err := c.call(ctx, progPortmap, portmapVers, pmapprocGetport, args)
	if port := r.Uint32(); err == nil && r.Err() == nil && port > 0 && port < 1<<16 {
		return uint16(port)
	}
	return otherwise
}

func (s *Server) connect(ctx context.Context, port uint16, timeout time.Duration) (*conn, error) {
	c, err := dial(ctx, netip.AddrPortFrom(s.Addr, port), timeout)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, cred: s.cred, timeout: timeout, xid: uint32(time.Now().UnixNano())}, nil
}

func (s *Server) ping(ctx context.Context, port uint16, prog uint32) error {
	c, err := s.connect(ctx, port, s.timeout)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.call(ctx, prog, version3, procNull, nil)
	return err
}

// mount asks MOUNT for the handle of the nearest directory above path that it gives
// one for, or else for that of path itself. It returns the names that are left to
// be looked up. (Not path first: some servers give the root for any path.)
func (s *Server) mount(ctx context.Context, path string) (fh []byte, names []string, err error) {
	c, err := s.connect(ctx, s.Mount, s.timeout)
	if err != nil {
		return nil, nil, fmt.Errorf("MOUNT at %s: %w", netip.AddrPortFrom(s.Addr, s.Mount), err)
	}
	defer c.Close()
	all := strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
	var why error // the first, or the first that speaks of a directory that exists
	known := false
	above := max(len(all)-1, 0)
	for i := range len(all) + 1 {
		n := above - i
		if n < 0 {
			n = len(all)
		}
		dir := "/" + strings.Join(all[:n], "/")
		fh, err := c.mnt(ctx, dir)
		var status Status
		switch {
		case err == nil:
			return fh, all[n:], nil
		case !errors.As(err, &status):
			return nil, nil, fmt.Errorf("MNT %s: %w", dir, err)
		}
		if denied := status == statusAccess; why == nil || denied && !known {
			why, known = fmt.Errorf("MNT %s: %w", dir, mountError(status)), denied
		}
	}
	return nil, nil, why
}

const (
	statusNoent  = Status(2)
	statusAccess = Status(13)
)

func mountError(status Status) error {
	switch status {
	case statusNoent:
		return fmt.Errorf("nothing there is exported (%w)", status)
	case statusAccess:
		return fmt.Errorf("not exported to this machine, or only to ports below 1024, for which one must be root (%w)", status)
	}
	return status
}

func (c *conn) mnt(ctx context.Context, dir string) ([]byte, error) {
	r, err := c.call(ctx, progMount, version3, mountprocMnt, xdr.AppendString(nil, dir))
	if err != nil {
		return nil, err
	}
	if status := r.Uint32(); status != 0 {
		return nil, Status(status)
	}
	fh := r.Opaque(maxFH)
	return fh, r.Err()
}
