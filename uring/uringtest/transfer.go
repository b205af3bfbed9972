package uringtest

import (
	"golang.org/x/sys/unix"

	"sluice/uring"
)

// transfer runs reads, writes, sends, receives and accepts.
func (r *Ring) transfer(req *request) (res int32, flags uint32, ok bool) {
	s := &req.sqe
	if req.fd < 0 {
		return -int32(unix.EBADF), 0, true
	}
	if _, isReady := ready(req.fd, waitsFor(s.Opcode)); !isReady {
		if r.nowait(req) {
			return -int32(unix.EAGAIN), 0, true
		}
		return 0, 0, false
	}
	if s.Opcode == uring.IORING_OP_ACCEPT {
		return r.accept(req)
	}
	addr, n := s.Addr+uint64(req.done), s.Len-uint32(req.done)
	var buf buffer
	if s.Flags&uring.IOSQE_BUFFER_SELECT != 0 {
		if buf, ok = r.takeBuffer(s.BufIndex); !ok {
			return -int32(unix.ENOBUFS), 0, true
		}
		addr = buf.addr
		if n == 0 || n > buf.size {
			n = buf.size
		}
		flags = uring.IORING_CQE_F_BUFFER | uint32(buf.bid)<<uring.IORING_CQE_BUFFER_SHIFT
	}
	res = r.move(req, addr, r.cut(n))
	if flags != 0 && res < 0 {
		r.giveBuffer(s.BufIndex, buf)
		flags = 0
	}
	if again(res) && !r.nowait(req) {
		return 0, 0, false
	}
	return r.moved(req, res, flags)
}

func (r *Ring) nowait(req *request) bool {
	switch req.sqe.Opcode {
	case uring.IORING_OP_SEND, uring.IORING_OP_SEND_ZC, uring.IORING_OP_SENDMSG,
		uring.IORING_OP_RECV, uring.IORING_OP_RECVMSG:
		return req.sqe.OpFlags&unix.MSG_DONTWAIT != 0
	case uring.IORING_OP_READ, uring.IORING_OP_READV:
		return req.sqe.OpFlags&unix.RWF_NOWAIT != 0
	}
	return false
}

// move makes the system call.
func (r *Ring) move(req *request, addr uint64, n uint32) int32 {
	s := &req.sqe
	fd, a, size, off := uintptr(req.fd), uintptr(addr), uintptr(n), uintptr(s.Off)
	msgFlags := uintptr(s.OpFlags&^unix.MSG_WAITALL | unix.MSG_DONTWAIT)
	atCursor := s.Off == uring.CurrentPosition
	switch s.Opcode {
	case uring.IORING_OP_READ, uring.IORING_OP_READ_FIXED:
		if atCursor || !seekable(req.fd) {
			return call(unix.SYS_READ, fd, a, size)
		}
		return call(unix.SYS_PREAD64, fd, a, size, off)
	case uring.IORING_OP_WRITE, uring.IORING_OP_WRITE_FIXED:
		if atCursor || !seekable(req.fd) {
			return call(unix.SYS_WRITE, fd, a, size)
		}
		return call(unix.SYS_PWRITE64, fd, a, size, off)
	case uring.IORING_OP_READV:
		return call(unix.SYS_PREADV2, fd, uintptr(s.Addr), uintptr(s.Len), r.vecOff(req), 0, uintptr(s.OpFlags))
	case uring.IORING_OP_WRITEV:
		return call(unix.SYS_PWRITEV2, fd, uintptr(s.Addr), uintptr(s.Len), r.vecOff(req), 0, uintptr(s.OpFlags))
	case uring.IORING_OP_SEND, uring.IORING_OP_SEND_ZC:
		return call(unix.SYS_SENDTO, fd, a, size, msgFlags|unix.MSG_NOSIGNAL, 0, 0)
	case uring.IORING_OP_RECV:
		return call(unix.SYS_RECVFROM, fd, a, size, msgFlags, 0, 0)
	case uring.IORING_OP_SENDMSG:
		return call(unix.SYS_SENDMSG, fd, uintptr(s.Addr), msgFlags|unix.MSG_NOSIGNAL)
	case uring.IORING_OP_RECVMSG:
		return call(unix.SYS_RECVMSG, fd, uintptr(s.Addr), msgFlags)
	}
	return -int32(unix.EINVAL)
}

// vecOff is the offset for preadv2(2): -1 is the file's own position.
func (r *Ring) vecOff(req *request) uintptr {
	if !seekable(req.fd) {
		return ^uintptr(0)
	}
	return uintptr(req.sqe.Off)
}

// seekable: pread(2) refuses pipes and sockets, io_uring ignores the offset.
func seekable(fd int) bool {
	_, err := unix.Seek(fd, 0, unix.SEEK_CUR)
	return err == nil
}

// moved turns the result of a system call into a completion.
func (r *Ring) moved(req *request, res int32, flags uint32) (int32, uint32, bool) {
	s := &req.sqe
	waitAll := s.OpFlags&unix.MSG_WAITALL != 0
	switch s.Opcode {
	case uring.IORING_OP_SEND, uring.IORING_OP_RECV:
		if waitAll && s.Flags&uring.IOSQE_BUFFER_SELECT == 0 {
			return r.movedSoFar(req, res)
		}
	}
	switch {
	case s.Opcode == uring.IORING_OP_SEND_ZC && res >= 0:
		req.notif = true // what is left to do
		flags |= uring.IORING_CQE_F_MORE
	case s.Opcode == uring.IORING_OP_RECV && s.IOPrio&uring.IORING_RECV_MULTISHOT != 0 && res > 0 &&
		!r.chance(r.cfg.Faults.EndMultishot):
		flags |= uring.IORING_CQE_F_MORE
	}
	return res, flags, true
}

// movedSoFar goes on with MSG_WAITALL until all is moved, an error or the end.
func (r *Ring) movedSoFar(req *request, res int32) (int32, uint32, bool) {
	if res > 0 {
		req.done += res
		if uint32(req.done) < req.sqe.Len {
			return 0, 0, false
		}
	}
	if req.done > 0 {
		res = req.done
	}
	return res, 0, true
}

func (r *Ring) accept(req *request) (int32, uint32, bool) {
	s := &req.sqe
	res := call(unix.SYS_ACCEPT4, uintptr(req.fd), uintptr(s.Addr), uintptr(s.Off), uintptr(s.OpFlags))
	if again(res) {
		return 0, 0, false
	}
	if res >= 0 && s.IOPrio&uring.IORING_ACCEPT_MULTISHOT != 0 && !r.chance(r.cfg.Faults.EndMultishot) {
		return res, uring.IORING_CQE_F_MORE, true
	}
	return res, 0, true
}

// poll is edge-triggered when multishot: it reports changes.
func (r *Ring) poll(req *request) (int32, uint32, bool) {
	s := &req.sqe
	if req.fd < 0 {
		return -int32(unix.EBADF), 0, true
	}
	events, ok := ready(req.fd, int16(s.OpFlags))
	if s.Len&uring.IORING_POLL_ADD_MULTI == 0 {
		return int32(events), 0, ok
	}
	changed := events != req.last
	req.last = events
	if !ok || !changed {
		return 0, 0, false
	}
	if r.chance(r.cfg.Faults.EndMultishot) {
		return int32(events), 0, true
	}
	return int32(events), uring.IORING_CQE_F_MORE, true
}

// buffer is one provided buffer.
type buffer struct {
	addr uint64
	size uint32
	bid  uint16
}

func (r *Ring) buffers(s *uring.SQE) int32 {
	group := r.groups[s.BufIndex]
	if s.Opcode == uring.IORING_OP_REMOVE_BUFFERS {
		n := min(int(s.FD), len(group))
		if n == 0 {
			return -int32(unix.ENOENT)
		}
		r.groups[s.BufIndex] = group[n:]
		return int32(n)
	}
	for i := range uint64(s.FD) {
		group = append(group, buffer{s.Addr + i*uint64(s.Len), s.Len, uint16(s.Off + i)})
	}
	r.groups[s.BufIndex] = group
	return 0
}

func (r *Ring) takeBuffer(bgid uint16) (buffer, bool) {
	group := r.groups[bgid]
	if len(group) == 0 {
		return buffer{}, false
	}
	r.groups[bgid] = group[1:]
	return group[0], true
}

func (r *Ring) giveBuffer(bgid uint16, b buffer) {
	r.groups[bgid] = append([]buffer{b}, r.groups[bgid]...)
}
