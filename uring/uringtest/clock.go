package uringtest

import (
	"encoding/binary"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"sluice/uring"
)

// peekDuration reads the struct __kernel_timespec at addr. The kernel copies
// it for us, which needs no unsafe and finds bad addresses.
func peekDuration(addr uint64) (time.Duration, error) {
	var raw [16]byte
	local := unix.Iovec{Base: &raw[0]}
	local.SetLen(len(raw))
	_, err := unix.ProcessVMReadv(os.Getpid(), []unix.Iovec{local}, []unix.RemoteIovec{{Base: uintptr(addr), Len: len(raw)}}, 0)
	if err != nil {
		return 0, err
	}
	sec := int64(binary.NativeEndian.Uint64(raw[:]))
	nsec := int64(binary.NativeEndian.Uint64(raw[8:]))
	return time.Duration(sec)*time.Second + time.Duration(nsec), nil
}

// attemptTimer completes a TIMEOUT whose time or count has come. A
// LINK_TIMEOUT that limits nothing is an error.
func (r *Ring) attemptTimer(req *request) bool {
	switch {
	case req.sqe.Opcode == uring.IORING_OP_LINK_TIMEOUT, req.deadline.IsZero():
		r.finish(req, -int32(unix.EINVAL), 0)
	case req.counting && int32(r.posted-req.target) >= 0:
		r.finish(req, 0, 0)
	case time.Now().After(req.deadline):
		r.finish(req, -int32(unix.ETIME), 0)
	default:
		return false
	}
	return true
}

// sleepMax bounds one sleep: a counting timeout has no descriptor.
const sleepMax = 10 * time.Millisecond

// sleep waits until something may have become ready, and reports false once
// deadline, if set, has passed.
func (r *Ring) sleep(deadline time.Time) bool {
	now := time.Now()
	if !deadline.IsZero() && !now.Before(deadline) {
		return false
	}
	d := sleepMax
	var fds []unix.PollFd
	for _, req := range r.pending {
		if !req.deadline.IsZero() {
			d = min(d, req.deadline.Sub(now))
		}
		if isTimer(req.sqe.Opcode) || req.fd < 0 {
			continue
		}
		fds = append(fds, unix.PollFd{Fd: int32(req.fd), Events: r.pollEvents(req)})
	}
	if !deadline.IsZero() {
		d = min(d, deadline.Sub(now))
	}
	ts := unix.NsecToTimespec(max(d, 0).Nanoseconds())
	// EINTR and wake-ups for nothing only lead to another look.
	unix.Ppoll(fds, &ts, nil)
	return true
}

// pollEvents is what to sleep on for req. A multishot poll that has reported
// would wake at once; it is looked at when the sleep ends.
func (r *Ring) pollEvents(req *request) int16 {
	switch req.sqe.Opcode {
	case uring.IORING_OP_POLL_ADD:
		return int16(req.sqe.OpFlags) &^ req.last
	case uring.IORING_OP_SPLICE, uring.IORING_OP_TEE:
		return unix.POLLOUT
	}
	return waitsFor(req.sqe.Opcode)
}

// cancel is IORING_OP_ASYNC_CANCEL.
func (r *Ring) cancel(req *request) int32 {
	s := &req.sqe
	var n int32
	for _, other := range append([]*request(nil), r.pending...) {
		if other == req || other.notif || !matches(s, other) {
			continue
		}
		if r.chance(r.cfg.Faults.TooLate) {
			if s.OpFlags&uring.IORING_ASYNC_CANCEL_ALL == 0 {
				return -int32(unix.EALREADY)
			}
			continue
		}
		r.finish(other, -int32(unix.ECANCELED), 0)
		n++
		if s.OpFlags&uring.IORING_ASYNC_CANCEL_ALL == 0 {
			return 0
		}
	}
	if n == 0 && s.OpFlags&uring.IORING_ASYNC_CANCEL_ALL == 0 {
		return -int32(unix.ENOENT)
	}
	return n
}

func matches(s *uring.SQE, other *request) bool {
	switch {
	case s.OpFlags&uring.IORING_ASYNC_CANCEL_ANY != 0:
		return true
	case s.OpFlags&uring.IORING_ASYNC_CANCEL_FD_FIXED != 0:
		return other.sqe.Flags&uring.IOSQE_FIXED_FILE != 0 && other.sqe.FD == s.FD
	case s.OpFlags&uring.IORING_ASYNC_CANCEL_FD != 0:
		return other.fd == int(s.FD)
	}
	return other.sqe.UserData == s.Addr
}

// remove is IORING_OP_TIMEOUT_REMOVE, also as an update, and
// IORING_OP_POLL_REMOVE.
func (r *Ring) remove(req *request) int32 {
	s := &req.sqe
	want := uring.IORING_OP_TIMEOUT
	if s.Opcode == uring.IORING_OP_POLL_REMOVE {
		want = uring.IORING_OP_POLL_ADD
	}
	for _, other := range r.pending {
		if other.sqe.Opcode != want || other.sqe.UserData != s.Addr {
			continue
		}
		if want == uring.IORING_OP_TIMEOUT && s.OpFlags&uring.IORING_TIMEOUT_UPDATE != 0 {
			d, err := peekDuration(s.Off)
			if err != nil {
				return errnoOf(err)
			}
			other.deadline = time.Now().Add(d)
			return 0
		}
		r.finish(other, -int32(unix.ECANCELED), 0)
		return 0
	}
	return -int32(unix.ENOENT)
}
