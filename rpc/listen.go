package rpc

import (
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Listen adds a TCP listener, which the server owns from then on. The socket may
// be shared with another process: one that handed it over, or that will take it.
func (s *Server) Listen(l *net.TCPListener) error {
	defer l.Close()
	fd, err := dupSocket(l)
	if err != nil {
		return err
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return os.NewSyscallError("fcntl", err)
	}
	s.listeners = append(s.listeners, fd)
	return nil
}

// dupSocket duplicates the descriptor of a socket. (net's own File makes the
// socket blocking for a moment, for everybody who shares it.)
func dupSocket(c syscall.Conn) (fd int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return -1, err
	}
	var dupErr error
	err = raw.Control(func(of uintptr) { fd, dupErr = unix.FcntlInt(of, unix.F_DUPFD_CLOEXEC, 0) })
	if err == nil && dupErr != nil {
		err = os.NewSyscallError("fcntl", dupErr)
	}
	return fd, err
}

// accept takes connections from a listener.
func (s *Server) accept(index int) {
	s.listenMu.Lock()
	defer s.listenMu.Unlock()
	if index >= len(s.listeners) {
		return // the wake-up descriptor: the thread's loop looks at stopped
	}
	for range acceptBatch {
		fd, sa, err := unix.Accept4(s.listeners[index], unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		switch err {
		case nil:
			s.admit(fd, sa)
		case unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM:
			s.logFull("cannot accept a connection", err)
			if !s.turnAway(index) {
				// The connection stays in the backlog; do not spin on it.
				time.Sleep(10 * time.Millisecond)
				return
			}
		default: // EAGAIN, or an error of the connection that went away (accept(2))
			return
		}
	}
}

// turnAway takes a connection for which there is no descriptor and closes it, so
// that it does not wake the threads for ever. It gives up the spare descriptor
// for that time. The caller holds listenMu.
func (s *Server) turnAway(index int) bool {
	if s.spareFD < 0 {
		s.spareFD = openSpare()
	}
	if s.spareFD < 0 {
		return false
	}
	_ = unix.Close(s.spareFD)
	fd, _, err := unix.Accept4(s.listeners[index], unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	if err == nil {
		s.refused.Add(1)
		_ = unix.Close(fd)
	}
	s.spareFD = openSpare()
	return err == nil || err == unix.EAGAIN
}

// openSpare returns a descriptor to be given up in need, or -1.
func openSpare() int {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return -1
	}
	return fd
}

// stopListening takes no connections any more. When it returns, those that were
// taken have their homes. An epoll knows a socket, not a descriptor, and would go
// on reporting one that another process has open too (epoll(7), question 6); so
// the listeners are taken out before they are closed.
func (s *Server) stopListening() {
	s.listenMu.Lock()
	defer s.listenMu.Unlock()
	for _, fd := range s.listeners {
		for _, t := range s.threads {
			_ = unix.EpollCtl(t.poll.fd, unix.EPOLL_CTL_DEL, fd, nil) // fails if it never started
		}
		_ = unix.Close(fd)
	}
	s.listeners = nil
	if s.spareFD >= 0 {
		_ = unix.Close(s.spareFD)
		s.spareFD = -1
	}
}
