package rpc

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// packetSocket serves the programs that answer over UDP. Nothing about it is
// hot: every datagram is handed to the waiting threads.
type packetSocket struct {
	srv     *Server
	conn    *net.UDPConn
	pending atomic.Int32 // calls that wait for a thread or run
}

// ListenPacket adds a UDP socket, which the server owns from then on.
func (s *Server) ListenPacket(conn *net.UDPConn) error {
	if err := askDestination(conn); err != nil {
		return err
	}
	s.packet = append(s.packet, &packetSocket{srv: s, conn: conn})
	return nil
}

// askDestination has the kernel tell where each datagram was sent to, so that
// the reply can come from there: clients drop one from another of our addresses.
func askDestination(conn *net.UDPConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	local := conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr()
	var optErr error
	err = raw.Control(func(fd uintptr) {
		if local.Is4() {
			optErr = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_PKTINFO, 1)
		} else {
			optErr = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1)
		}
	})
	return errors.Join(err, os.NewSyscallError("setsockopt", optErr))
}

// answerFrom turns the control message of a datagram into that of its reply: the
// address it was sent to becomes the source, the interface is left to routing
// (ip(7) IP_PKTINFO, ipv6(7) IPV6_PKTINFO). Nil leaves the source to routing too.
func answerFrom(oob []byte) []byte {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	for _, m := range msgs {
		switch {
		case m.Header.Level == unix.IPPROTO_IP && m.Header.Type == unix.IP_PKTINFO && len(m.Data) >= 12:
			return unix.PktInfo4(&unix.Inet4Pktinfo{Spec_dst: [4]byte(m.Data[8:12])})
		case m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_PKTINFO && len(m.Data) >= 16:
			return unix.PktInfo6(&unix.Inet6Pktinfo{Addr: [16]byte(m.Data[:16])})
		}
	}
	return nil
}

func (p *packetSocket) close() { _ = p.conn.Close() }

func (p *packetSocket) loop() {
	buf := make([]byte, maxDatagram)
	oob := make([]byte, 256)
	for {
		n, noob, _, from, err := p.conn.ReadMsgUDPAddrPort(buf, oob)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil || n < minRecord {
			continue // an ICMP error of an earlier reply, or nothing to answer
		}
		if p.pending.Add(1) > maxDatagramCalls {
			p.pending.Add(-1)
			continue // the peer asks again; that is UDP
		}
		w := newWaitingCall(datagramReply{p, from, answerFrom(oob[:noob])}, buf[:n])
		w.peer = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
		w.udp, w.class = true, udpClass
		p.srv.waiters.submit(w)
	}
}

// udpClass keeps datagrams from taking the waiting threads of others.
const udpClass = ^uint64(0)

type datagramReply struct {
	sock *packetSocket
	to   netip.AddrPort
	oob  []byte
}

func (d datagramReply) complete(w *waitingCall) {
	d.sock.pending.Add(-1)
	if len(w.reply) > markLen {
		_, _, _ = d.sock.conn.WriteMsgUDPAddrPort(w.reply[markLen:], d.oob, d.to)
	}
	w.release()
}
