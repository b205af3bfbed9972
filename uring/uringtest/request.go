package uringtest

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"sluice/uring"
)

// request is an operation that the ring has taken.
type request struct {
	sqe      uring.SQE
	fd, fdIn int // resolved, -1 if they cannot be
	next     *request
	seq      uint64
	deadline time.Time // of IORING_OP_TIMEOUT, and of what links to a LINK_TIMEOUT
	target   uint32    // completions a counting timeout waits for
	counting bool
	done     int32 // bytes moved so far by a transfer with MSG_WAITALL
	last     int16 // events a multishot poll last reported
	notif    bool  // a zero-copy send that only owes its notification
	timedOut bool  // by the LINK_TIMEOUT behind it
}

func (r *Ring) newRequest(s *uring.SQE) *request {
	r.seq++
	req := &request{sqe: *s, seq: r.seq, fd: int(s.FD), fdIn: int(s.SpliceFDIn)}
	if s.Flags&uring.IOSQE_FIXED_FILE != 0 {
		req.fd = r.file(s.FD)
	}
	if s.Opcode == uring.IORING_OP_SPLICE && s.OpFlags&uring.SPLICE_F_FD_IN_FIXED != 0 {
		req.fdIn = r.file(s.SpliceFDIn)
		req.sqe.OpFlags &^= uring.SPLICE_F_FD_IN_FIXED
	}
	return req
}

func (r *Ring) file(index int32) int {
	if int(index) >= len(r.files) {
		return -1
	}
	return int(r.files[index])
}

// start queues a chain. One that has an operation the ring does not know fails
// whole, before anything runs, as in the kernel: that one with -EINVAL.
func (r *Ring) start(chain *request) {
	for bad := chain; bad != nil; bad = bad.next {
		if known(bad.sqe.Opcode) || r.cfg.Exec != nil {
			continue
		}
		for req := chain; req != nil; req = req.next {
			res := -int32(unix.ECANCELED)
			if req == bad {
				res = -int32(unix.EINVAL)
			}
			r.post(uring.CQE{UserData: req.sqe.UserData, Res: res})
		}
		return
	}
	r.begin(chain)
}

// begin makes a request eligible and starts the clocks that concern it.
func (r *Ring) begin(req *request) {
	if limit := req.next; limit != nil && limit.sqe.Opcode == uring.IORING_OP_LINK_TIMEOUT {
		if d, err := peekDuration(limit.sqe.Addr); err == nil {
			req.deadline = time.Now().Add(d)
		}
	}
	if req.sqe.Opcode == uring.IORING_OP_TIMEOUT {
		if d, err := peekDuration(req.sqe.Addr); err == nil {
			req.deadline = time.Now().Add(d)
		}
		if req.sqe.Off != 0 {
			req.counting, req.target = true, r.posted+uint32(req.sqe.Off)
		}
	}
	r.pending = append(r.pending, req)
}

type progress int

const (
	completed    progress = iota
	delayed               // something could have completed, but was made to wait
	nothingReady          // everything waits for a descriptor or a clock
)

// step completes at most one request, chosen at random.
func (r *Ring) step() progress {
	result := nothingReady
	order := slices.Clone(r.pending)
	r.rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	for _, req := range order {
		if !r.eligible(req) {
			continue
		}
		if r.chance(r.cfg.Faults.Delay) {
			result = delayed
			continue
		}
		if r.attempt(req) {
			return completed
		}
	}
	return result
}

// eligible applies IOSQE_IO_DRAIN: such a request waits for all before it, and
// all after it wait for it.
func (r *Ring) eligible(req *request) bool {
	drain := req.sqe.Flags&uring.IOSQE_IO_DRAIN != 0
	for _, other := range r.pending {
		if other.seq < req.seq && (drain || other.sqe.Flags&uring.IOSQE_IO_DRAIN != 0) {
			return false
		}
	}
	return true
}

// attempt runs req if it can complete now.
func (r *Ring) attempt(req *request) bool {
	if req.notif {
		r.finish(req, 0, uring.IORING_CQE_F_NOTIF)
		return true
	}
	if r.cfg.Exec != nil {
		if res, ok := r.cfg.Exec(&req.sqe); ok {
			r.finish(req, res, 0)
			return true
		}
	}
	if isTimer(req.sqe.Opcode) {
		return r.attemptTimer(req)
	}
	if !req.deadline.IsZero() && time.Now().After(req.deadline) {
		req.timedOut = true
		r.finish(req, -int32(unix.ECANCELED), 0)
		return true
	}
	if errno := r.fault(req); errno != 0 {
		r.finish(req, -int32(errno), 0)
		return true
	}
	res, flags, ok := r.exec(req)
	if ok {
		r.finish(req, res, flags)
	}
	return ok
}

// fault picks an error for req to fail with, nothing done.
func (r *Ring) fault(req *request) unix.Errno {
	f, op := r.cfg.Faults, req.sqe.Opcode
	moves, file := isTransfer(op), isFile(op)
	selects := req.sqe.Flags&uring.IOSQE_BUFFER_SELECT != 0 || isSend(op)
	switch {
	case moves && req.done == 0 && r.chance(f.EAGAIN):
		return unix.EAGAIN
	case moves && req.done == 0 && r.chance(f.EINTR):
		return unix.EINTR
	case selects && req.done == 0 && r.chance(f.ENOBUFS):
		return unix.ENOBUFS
	case file && r.chance(f.EIO):
		return unix.EIO
	}
	return 0
}

// finish posts a completion of req. Without IORING_CQE_F_MORE in flags req is
// over: its chain goes on or is cancelled.
func (r *Ring) finish(req *request, res int32, flags uint32) {
	failed := r.breaksLink(req, res)
	silent := req.sqe.Flags&uring.IOSQE_CQE_SKIP_SUCCESS != 0
	if failed || !silent {
		r.post(uring.CQE{UserData: req.sqe.UserData, Res: res, Flags: flags})
	}
	if flags&uring.IORING_CQE_F_MORE != 0 {
		return
	}
	r.pending = slices.DeleteFunc(r.pending, func(p *request) bool { return p == req })
	next := r.endLinkTimeout(req)
	if next == nil {
		return
	}
	if !failed || req.sqe.Flags&uring.IOSQE_IO_HARDLINK != 0 {
		r.begin(next)
		return
	}
	for ; next != nil; next = next.next {
		if !silent { // a silent one that fails silences the rest
			r.post(uring.CQE{UserData: next.sqe.UserData, Res: -int32(unix.ECANCELED)})
		}
	}
}

// endLinkTimeout completes the LINK_TIMEOUT behind req and returns what
// follows in the chain.
func (r *Ring) endLinkTimeout(req *request) *request {
	limit := req.next
	if limit == nil || limit.sqe.Opcode != uring.IORING_OP_LINK_TIMEOUT {
		return limit
	}
	res := -int32(unix.ECANCELED)
	if req.timedOut {
		res = -int32(unix.ETIME)
	}
	r.post(uring.CQE{UserData: limit.sqe.UserData, Res: res})
	return limit.next
}

// breaksLink says whether req's result cancels what links to it: an error, or
// a transfer that fell short.
func (r *Ring) breaksLink(req *request, res int32) bool {
	if res < 0 {
		return !(req.sqe.Opcode == uring.IORING_OP_TIMEOUT && res == -int32(unix.ETIME) &&
			req.sqe.OpFlags&uring.IORING_TIMEOUT_ETIME_SUCCESS != 0)
	}
	return isLenTransfer(req.sqe.Opcode) && uint32(res) < req.sqe.Len
}
