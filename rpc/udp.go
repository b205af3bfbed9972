package rpc

import (
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
)

// packetSocket serves the programs that answer over UDP. Nothing about it is
// hot: every datagram is handed to the waiting threads.
type packetSocket struct {
	srv     *Server
	conn    *net.UDPConn
	pending atomic.Int32 // calls that wait for a thread or run
}

// ListenPacket adds a UDP socket, which the server owns from then on.
func (s *Server) ListenPacket(conn *net.UDPConn) {
	s.packet = append(s.packet, &packetSocket{srv: s, conn: conn})
}

func (p *packetSocket) close() { _ = p.conn.Close() }

func (p *packetSocket) loop() {
	buf := make([]byte, maxDatagram)
	for {
		n, from, err := p.conn.ReadFromUDPAddrPort(buf)
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
		w := newWaitingCall(datagramReply{p, from}, buf[:n])
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
}

func (d datagramReply) complete(w *waitingCall) {
	d.sock.pending.Add(-1)
	if len(w.reply) > markLen {
		_, _ = d.sock.conn.WriteToUDPAddrPort(w.reply[markLen:], d.to)
	}
	w.release()
}
