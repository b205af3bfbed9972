package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/coreos/go-systemd/v22/activation"
	"golang.org/x/sys/unix"
)

// A process can be started with its sockets open: by systemd, as
// sd_listen_fds(3) says, or by the server before it (handover.go), which does
// not know the process id that systemd's protocol wants to be told.

// handOverEnv lists the names of the sockets from firstInherited on that a server
// hands over.
const handOverEnv = "SLUICE_SOCKETS"

const (
	firstInherited = 3
	nfsSocket      = "nfs"
	metricsSocket  = "metrics" // FileDescriptorName= of a metrics socket
)

// inheritedSockets returns the sockets that the process was started with.
func inheritedSockets() []*os.File {
	names, ok := os.LookupEnv(handOverEnv)
	if !ok {
		return activation.Files(true)
	}
	_ = os.Unsetenv(handOverEnv)
	var files []*os.File
	for i, name := range strings.Split(names, ":") {
		syscall.CloseOnExec(firstInherited + i)
		files = append(files, os.NewFile(uintptr(firstInherited+i), name))
	}
	return files
}

// adopt makes sockets of the files, which it closes.
func adopt(files []*os.File) (*sockets, error) {
	var s sockets
	var errs []error
	for _, f := range files {
		errs = append(errs, s.adoptOne(f))
		f.Close()
	}
	if err := errors.Join(errs...); err != nil {
		s.close()
		return nil, err
	}
	if len(s.tcp) == 0 {
		s.close()
		return nil, errors.New("none of the sockets passed to the server is a TCP listener")
	}
	return &s, nil
}

func (s *sockets) adoptOne(f *os.File) error {
	if l, err := net.FileListener(f); err == nil {
		tcp, ok := l.(*net.TCPListener)
		switch {
		case !ok:
			l.Close()
			return fmt.Errorf("socket %q passed to the server is not TCP", f.Name())
		case f.Name() == metricsSocket:
			s.metrics = tcp
		default:
			s.tcp = append(s.tcp, tcp)
		}
		return nil
	}
	c, err := net.FilePacketConn(f)
	if err != nil {
		return fmt.Errorf("descriptor %q passed to the server is no socket to serve on: %w", f.Name(), err)
	}
	udp, ok := c.(*net.UDPConn)
	if !ok {
		c.Close()
		return fmt.Errorf("socket %q passed to the server is not UDP", f.Name())
	}
	s.udp = append(s.udp, udp)
	return nil
}

// keptSocket is a descriptor of a socket and its name for a successor.
type keptSocket struct {
	fd   int
	name string
}

// keep duplicates the descriptors of all sockets.
func (s *sockets) keep() error {
	for _, l := range s.tcp {
		if err := s.keepOne(l, nfsSocket); err != nil {
			return err
		}
	}
	for _, c := range s.udp {
		if err := s.keepOne(c, nfsSocket); err != nil {
			return err
		}
	}
	return nil
}

func (s *sockets) keepOne(c syscall.Conn, name string) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var fd int
	var dupErr error
	err = raw.Control(func(of uintptr) { fd, dupErr = unix.FcntlInt(of, unix.F_DUPFD_CLOEXEC, 0) })
	if err = errors.Join(err, os.NewSyscallError("fcntl", dupErr)); err == nil {
		s.kept = append(s.kept, keptSocket{fd, name})
	}
	return err
}

// dropKept closes the descriptors. While one is open clients can connect.
func (s *sockets) dropKept() {
	for _, k := range s.kept {
		unix.Close(k.fd)
	}
	s.kept = nil
}

// listenMetrics opens the metrics listener, unless it was passed to us.
func (s *sockets) listenMetrics(addr string) (*net.TCPListener, error) {
	l := s.metrics
	if l == nil {
		any, err := net.Listen("tcp", addr)
		if err != nil {
			return nil, err
		}
		l = any.(*net.TCPListener)
	}
	s.metrics = nil
	return l, s.keepOne(l, metricsSocket)
}
