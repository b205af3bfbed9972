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
			if s.spareFD < 0 {
				s.keepSpare(fd)
				continue
			}
			s.admit(fd, sa)
		case unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM:
			s.logFull("cannot accept a connection", err)
			if !s.turnAway(index) {
				s.pauseListening()
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
		return false
	}
	_ = unix.Close(s.spareFD)
	s.spareFD = -1
	fd, _, err := unix.Accept4(s.listeners[index], unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	if err != nil {
		s.spareFD = openSpare()
		return err == unix.EAGAIN
	}
	s.keepSpare(fd)
	return true
}

// keepSpare closes a connection and keeps its descriptor as the spare one, in one
// step, so that nobody is quicker to take it.
func (s *Server) keepSpare(fd int) {
	s.refused.Add(1)
	if unix.Dup3(s.wakeFD, fd, unix.O_CLOEXEC) == nil {
		s.spareFD = fd
		return
	}
	_ = unix.Close(fd)
}

// pauseListening leaves connections in the backlog for a moment, where there is no
// spare descriptor either: somebody was quicker to take it. The caller holds
// listenMu.
func (s *Server) pauseListening() {
	s.unwatchListeners()
	time.AfterFunc(acceptPause, func() {
		s.listenMu.Lock()
		defer s.listenMu.Unlock()
		for i, fd := range s.listeners { // none if the server has stopped listening
			for _, t := range s.threads {
				_ = t.poll.addListener(fd, i) // EEXIST if another pause has ended first
			}
		}
	})
}

// unwatchListeners takes the listeners out of the epolls.
func (s *Server) unwatchListeners() {
	for _, fd := range s.listeners {
		for _, t := range s.threads {
			_ = unix.EpollCtl(t.poll.fd, unix.EPOLL_CTL_DEL, fd, nil) // fails if it is not there
		}
	}
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
	s.unwatchListeners()
	for _, fd := range s.listeners {
		_ = unix.Close(fd)
	}
	s.listeners = nil
	if s.spareFD >= 0 {
		_ = unix.Close(s.spareFD)
		s.spareFD = -1
	}
}
