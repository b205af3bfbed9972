package uring

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// PrepSend prepares IORING_OP_SEND, send(2), with MSG_* flags. With
// MSG_WAITALL the kernel retries short sends, and a short one breaks a link.
func (s *SQE) PrepSend(fd int, buf []byte, flags uint32) {
	s.prepRW(IORING_OP_SEND, fd, addrOfSlice(buf), len(buf), 0)
	s.OpFlags = flags
}

// PrepSendZC prepares IORING_OP_SEND_ZC, a send without a copy. It completes
// twice if the first completion has IORING_CQE_F_MORE: the second, with
// IORING_CQE_F_NOTIF, gives the buffer back. zcFlags (in IOPrio) may be
// IORING_SEND_ZC_REPORT_USAGE, or IORING_RECVSEND_FIXED_BUF with BufIndex set.
func (s *SQE) PrepSendZC(fd int, buf []byte, flags uint32, zcFlags uint16) {
	s.prepRW(IORING_OP_SEND_ZC, fd, addrOfSlice(buf), len(buf), 0)
	s.OpFlags, s.IOPrio = flags, zcFlags
}

// PrepSendmsg prepares IORING_OP_SENDMSG, sendmsg(2). The kernel is done with
// msg and its iovecs, not with what they point to, after the submission.
func (s *SQE) PrepSendmsg(fd int, msg *unix.Msghdr, flags uint32) {
	s.prepRW(IORING_OP_SENDMSG, fd, addrOf(msg), 1, 0)
	s.OpFlags = flags
}

// PrepSendmsgZC prepares IORING_OP_SENDMSG_ZC; completions as for PrepSendZC.
func (s *SQE) PrepSendmsgZC(fd int, msg *unix.Msghdr, flags uint32) {
	s.prepRW(IORING_OP_SENDMSG_ZC, fd, addrOf(msg), 1, 0)
	s.OpFlags = flags
}

// PrepRecv prepares IORING_OP_RECV, recv(2).
func (s *SQE) PrepRecv(fd int, buf []byte, flags uint32) {
	s.prepRW(IORING_OP_RECV, fd, addrOfSlice(buf), len(buf), 0)
	s.OpFlags = flags
}

// PrepRecvSelect prepares IORING_OP_RECV into a provided buffer of group
// bgid.
func (s *SQE) PrepRecvSelect(fd int, flags uint32, bgid uint16) {
	s.prepRW(IORING_OP_RECV, fd, 0, 0, 0)
	s.OpFlags, s.Flags, s.BufIndex = flags, IOSQE_BUFFER_SELECT, bgid
}

// PrepRecvMultishot prepares IORING_OP_RECV that completes for every arrival,
// each in a provided buffer of group bgid. It ends, without
// IORING_CQE_F_MORE, at the end of the stream (0), with -ENOBUFS when the
// group is empty, or when the completion queue overflows; then prepare it
// again.
func (s *SQE) PrepRecvMultishot(fd int, flags uint32, bgid uint16) {
	s.PrepRecvSelect(fd, flags, bgid)
	s.IOPrio = IORING_RECV_MULTISHOT
}

// PrepRecvmsg prepares IORING_OP_RECVMSG, recvmsg(2). msg must stay too: the
// kernel writes its lengths and flags back.
func (s *SQE) PrepRecvmsg(fd int, msg *unix.Msghdr, flags uint32) {
	s.prepRW(IORING_OP_RECVMSG, fd, addrOf(msg), 1, 0)
	s.OpFlags = flags
}

// PrepRecvmsgMultishot prepares IORING_OP_RECVMSG that completes for every
// message, each in a provided buffer of group bgid, laid out as
// [ParseRecvmsgOut] reads it. Of msg only Namelen and Controllen count: the
// room kept for each. It ends as PrepRecvMultishot does, and after an empty
// datagram.
func (s *SQE) PrepRecvmsgMultishot(fd int, msg *unix.Msghdr, flags uint32, bgid uint16) {
	s.PrepRecvmsg(fd, msg, flags)
	s.Flags, s.IOPrio, s.BufIndex = IOSQE_BUFFER_SELECT, IORING_RECV_MULTISHOT, bgid
}

// RecvmsgOut is what a multishot RECVMSG put in one provided buffer. The
// slices are parts of the buffer.
type RecvmsgOut struct {
	Name, Control, Payload []byte
	Flags                  uint32 // MSG_TRUNC and the like
}

// ParseRecvmsgOut splits buf, the part of a provided buffer that CQE.Res
// covers, by struct io_uring_recvmsg_out at its start. msg is the one the
// operation was prepared with. It reports false if buf is too short.
func ParseRecvmsgOut(buf []byte, msg *unix.Msghdr) (RecvmsgOut, bool) {
	var h io_uring_recvmsg_out
	head := int(sizeOf(h))
	name, control := int(msg.Namelen), int(msg.Controllen)
	if len(buf) < head+name+control {
		return RecvmsgOut{}, false
	}
	word := binary.NativeEndian.Uint32
	h = io_uring_recvmsg_out{word(buf), word(buf[4:]), word(buf[8:]), word(buf[12:])}
	part := func(off, room int, n uint32) []byte { return buf[off:][:min(int(n), room)] }
	return RecvmsgOut{
		Name:    part(head, name, h.namelen),
		Control: part(head+name, control, h.controllen),
		Payload: part(head+name+control, len(buf)-head-name-control, h.payloadlen),
		Flags:   h.flags,
	}, true
}

// PrepAccept prepares IORING_OP_ACCEPT, accept4(2) with SOCK_* flags. addr and
// addrLen may be nil.
func (s *SQE) PrepAccept(fd int, addr *unix.RawSockaddrAny, addrLen *uint32, flags uint32) {
	s.prepRW(IORING_OP_ACCEPT, fd, addrOf(addr), 0, addrOf(addrLen))
	s.OpFlags = flags
}

// PrepAcceptMultishot prepares IORING_OP_ACCEPT that completes for every
// connection, with IORING_CQE_F_MORE while it goes on.
func (s *SQE) PrepAcceptMultishot(fd int, flags uint32) {
	s.PrepAccept(fd, nil, nil, flags)
	s.IOPrio = IORING_ACCEPT_MULTISHOT
}

// pollEvents orders the event bits as the kernel reads poll32_events: on
// big-endian machines the half words are swapped, for old programs that wrote
// 16 bits.
func pollEvents(events uint32) uint32 {
	if binary.NativeEndian.Uint16([]byte{0, 1}) == 1 {
		return events<<16 | events>>16
	}
	return events
}
