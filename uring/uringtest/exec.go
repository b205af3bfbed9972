package uringtest

import (
	"golang.org/x/sys/unix"

	"sluice/uring"
)

// The kernel's addresses are only ever handed on to system calls, which check
// them; so this package needs no unsafe, and a wrong address gives -EFAULT
// here as it does there.

type opClass uint8

const (
	isKnown opClass = 1 << iota
	transfer
	lenTransfer // Len is the number of bytes
	onFile      // may fail with EIO
	sends
	timer
)

var classes = [256]opClass{
	uring.IORING_OP_NOP:             isKnown,
	uring.IORING_OP_READ:            isKnown | transfer | lenTransfer | onFile,
	uring.IORING_OP_READ_FIXED:      isKnown | transfer | lenTransfer | onFile,
	uring.IORING_OP_WRITE:           isKnown | transfer | lenTransfer | onFile,
	uring.IORING_OP_WRITE_FIXED:     isKnown | transfer | lenTransfer | onFile,
	uring.IORING_OP_READV:           isKnown | transfer | onFile,
	uring.IORING_OP_WRITEV:          isKnown | transfer | onFile,
	uring.IORING_OP_SPLICE:          isKnown | transfer | lenTransfer | onFile,
	uring.IORING_OP_TEE:             isKnown | transfer | lenTransfer,
	uring.IORING_OP_SEND:            isKnown | transfer | sends,
	uring.IORING_OP_SEND_ZC:         isKnown | transfer | sends,
	uring.IORING_OP_SENDMSG:         isKnown | transfer | sends,
	uring.IORING_OP_RECV:            isKnown | transfer,
	uring.IORING_OP_RECVMSG:         isKnown | transfer,
	uring.IORING_OP_FADVISE:         isKnown,
	uring.IORING_OP_FSYNC:           isKnown | onFile,
	uring.IORING_OP_OPENAT2:         isKnown | onFile,
	uring.IORING_OP_STATX:           isKnown | onFile,
	uring.IORING_OP_CLOSE:           isKnown,
	uring.IORING_OP_ACCEPT:          isKnown,
	uring.IORING_OP_POLL_ADD:        isKnown,
	uring.IORING_OP_POLL_REMOVE:     isKnown,
	uring.IORING_OP_ASYNC_CANCEL:    isKnown,
	uring.IORING_OP_TIMEOUT:         isKnown | timer,
	uring.IORING_OP_TIMEOUT_REMOVE:  isKnown,
	uring.IORING_OP_LINK_TIMEOUT:    isKnown | timer,
	uring.IORING_OP_PROVIDE_BUFFERS: isKnown,
	uring.IORING_OP_REMOVE_BUFFERS:  isKnown,
}

func known(op uring.Opcode) bool         { return classes[op]&isKnown != 0 }
func isTransfer(op uring.Opcode) bool    { return classes[op]&transfer != 0 }
func isLenTransfer(op uring.Opcode) bool { return classes[op]&lenTransfer != 0 }
func isFile(op uring.Opcode) bool        { return classes[op]&onFile != 0 }
func isSend(op uring.Opcode) bool        { return classes[op]&sends != 0 }
func isTimer(op uring.Opcode) bool       { return classes[op]&timer != 0 }

// exec carries req out if it would not block, and says how it completed.
func (r *Ring) exec(req *request) (res int32, flags uint32, ok bool) {
	s := &req.sqe
	if !known(s.Opcode) {
		return -int32(unix.EINVAL), 0, true
	}
	switch s.Opcode {
	case uring.IORING_OP_NOP:
		return 0, 0, true
	case uring.IORING_OP_ASYNC_CANCEL:
		return r.cancel(req), 0, true
	case uring.IORING_OP_TIMEOUT_REMOVE, uring.IORING_OP_POLL_REMOVE:
		return r.remove(req), 0, true
	case uring.IORING_OP_PROVIDE_BUFFERS, uring.IORING_OP_REMOVE_BUFFERS:
		return r.buffers(s), 0, true
	case uring.IORING_OP_POLL_ADD:
		return r.poll(req)
	case uring.IORING_OP_FADVISE:
		return errnoOf(unix.Fadvise(req.fd, int64(s.Off), int64(s.Len), int(s.OpFlags))), 0, true
	case uring.IORING_OP_FSYNC:
		return r.fsync(req), 0, true
	case uring.IORING_OP_OPENAT2:
		return call(unix.SYS_OPENAT2, uintptr(req.fd), uintptr(s.Addr), uintptr(s.Off), uintptr(s.Len)), 0, true
	case uring.IORING_OP_STATX:
		return call(unix.SYS_STATX, uintptr(req.fd), uintptr(s.Addr), uintptr(s.OpFlags), uintptr(s.Len), uintptr(s.Off)), 0, true
	case uring.IORING_OP_CLOSE:
		return errnoOf(unix.Close(req.fd)), 0, true
	case uring.IORING_OP_SPLICE, uring.IORING_OP_TEE:
		res, ok = r.splice(req)
		return res, 0, ok
	}
	return r.transfer(req)
}

// call makes a system call and returns its result as a CQE has it.
func call(trap uintptr, a ...uintptr) int32 {
	var arg [6]uintptr
	copy(arg[:], a)
	n, _, errno := unix.Syscall6(trap, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5])
	if errno != 0 {
		return -int32(errno)
	}
	return int32(n)
}

func errnoOf(err error) int32 {
	if err == nil {
		return 0
	}
	if errno, ok := err.(unix.Errno); ok {
		return -int32(errno)
	}
	return -int32(unix.EIO)
}

// ready reports whether fd has one of events, or an error, right now. Regular
// files always have.
func ready(fd int, events int16) (revents int16, ok bool) {
	p := []unix.PollFd{{Fd: int32(fd), Events: events}}
	n, err := unix.Poll(p, 0)
	return p[0].Revents, err == nil && n > 0
}

// waitsFor says which events req's descriptor must show before it is tried.
func waitsFor(op uring.Opcode) int16 {
	switch op {
	case uring.IORING_OP_WRITE, uring.IORING_OP_WRITE_FIXED, uring.IORING_OP_WRITEV,
		uring.IORING_OP_SEND, uring.IORING_OP_SEND_ZC, uring.IORING_OP_SENDMSG:
		return unix.POLLOUT
	}
	return unix.POLLIN
}

// cut is the length to try a transfer of n bytes with.
func (r *Ring) cut(n uint32) uint32 {
	if n > 1 && r.chance(r.cfg.Faults.Short) {
		return 1 + r.rng.Uint32N(n-1)
	}
	return n
}

// again says whether a result means "not yet" for an operation that waits.
func again(res int32) bool { return res == -int32(unix.EAGAIN) }

func (r *Ring) fsync(req *request) int32 {
	if req.sqe.OpFlags&uring.IORING_FSYNC_DATASYNC != 0 {
		return errnoOf(unix.Fdatasync(req.fd))
	}
	return errnoOf(unix.Fsync(req.fd))
}

// splice tries without blocking. Like the kernel's worker it waits if the
// descriptors block, and gives up with -EAGAIN if they do not.
func (r *Ring) splice(req *request) (int32, bool) {
	s := &req.sqe
	if req.fd < 0 || req.fdIn < 0 {
		return -int32(unix.EBADF), true
	}
	n := uintptr(r.cut(s.Len))
	flags := uintptr(s.OpFlags | unix.SPLICE_F_NONBLOCK)
	if _, ok := ready(req.fdIn, unix.POLLIN); !ok {
		return r.notYet(req)
	}
	if _, ok := ready(req.fd, unix.POLLOUT); !ok {
		return r.notYet(req)
	}
	if s.Opcode == uring.IORING_OP_TEE {
		res := call(unix.SYS_TEE, uintptr(req.fdIn), uintptr(req.fd), n, flags)
		return r.orNotYet(req, res)
	}
	var offIn, offOut *int64
	if in := int64(s.Addr); in != -1 {
		offIn = &in
	}
	if out := int64(s.Off); out != -1 {
		offOut = &out
	}
	moved, err := unix.Splice(req.fdIn, offIn, req.fd, offOut, int(n), int(flags))
	if err != nil {
		return r.orNotYet(req, errnoOf(err))
	}
	return int32(moved), true
}

func (r *Ring) orNotYet(req *request, res int32) (int32, bool) {
	if again(res) {
		return r.notYet(req)
	}
	return res, true
}

func (r *Ring) notYet(req *request) (int32, bool) {
	if req.sqe.OpFlags&unix.SPLICE_F_NONBLOCK != 0 || nonblock(req.fd) || nonblock(req.fdIn) {
		return -int32(unix.EAGAIN), true
	}
	return 0, false
}

func nonblock(fd int) bool {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	return err != nil || flags&unix.O_NONBLOCK != 0
}
