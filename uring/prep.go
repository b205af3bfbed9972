package uring

import (
	"time"

	"golang.org/x/sys/unix"
)

// Each Prep method overwrites the whole entry with one operation. Set Flags,
// UserData, IOPrio and the like after it. Descriptors are plain ones, or
// indices into the registered files once Flags has IOSQE_FIXED_FILE.
//
// What a method is given by reference moves to the heap and must stay
// reachable until the operation's last completion, except where the method
// says that the kernel is done with it after the submission
// (IORING_FEAT_SUBMIT_STABLE).

// CurrentPosition as an offset means the file's own position, which moves
// (IORING_FEAT_RW_CUR_POS). Pipes and sockets have no other.
const CurrentPosition = ^uint64(0)

// Timespec converts a duration for the timeout operations.
func Timespec(d time.Duration) unix.KernelTimespec {
	return unix.KernelTimespec{Sec: int64(d / time.Second), Nsec: int64(d % time.Second)}
}

// PrepNop prepares IORING_OP_NOP.
func (s *SQE) PrepNop() { *s = SQE{Opcode: IORING_OP_NOP, FD: -1} }

func (s *SQE) prepRW(op Opcode, fd int, addr uint64, n int, off uint64) {
	*s = SQE{Opcode: op, FD: int32(fd), Addr: addr, Len: uint32(n), Off: off}
}

// PrepRead prepares IORING_OP_READ, pread(2). Set OpFlags to RWF_* as for
// preadv2(2).
func (s *SQE) PrepRead(fd int, buf []byte, off uint64) {
	s.prepRW(IORING_OP_READ, fd, addrOfSlice(buf), len(buf), off)
}

// PrepReadSelect prepares IORING_OP_READ of up to n bytes (0: the whole
// buffer) into a provided buffer of group bgid.
func (s *SQE) PrepReadSelect(fd int, n int, off uint64, bgid uint16) {
	s.prepRW(IORING_OP_READ, fd, 0, n, off)
	s.Flags, s.BufIndex = IOSQE_BUFFER_SELECT, bgid
}

// PrepWrite prepares IORING_OP_WRITE, pwrite(2).
func (s *SQE) PrepWrite(fd int, buf []byte, off uint64) {
	s.prepRW(IORING_OP_WRITE, fd, addrOfSlice(buf), len(buf), off)
}

// PrepReadv prepares IORING_OP_READV, preadv(2). The kernel is done with iovs
// itself, not with what it points to, after the submission.
func (s *SQE) PrepReadv(fd int, iovs []unix.Iovec, off uint64) {
	s.prepRW(IORING_OP_READV, fd, addrOfSlice(iovs), len(iovs), off)
}

// PrepWritev prepares IORING_OP_WRITEV, pwritev(2); iovs as for PrepReadv.
func (s *SQE) PrepWritev(fd int, iovs []unix.Iovec, off uint64) {
	s.prepRW(IORING_OP_WRITEV, fd, addrOfSlice(iovs), len(iovs), off)
}

// PrepReadFixed prepares IORING_OP_READ_FIXED into buf, which lies within
// registered buffer index.
func (s *SQE) PrepReadFixed(fd int, buf []byte, off uint64, index int) {
	s.prepRW(IORING_OP_READ_FIXED, fd, addrOfSlice(buf), len(buf), off)
	s.BufIndex = uint16(index)
}

// PrepWriteFixed prepares IORING_OP_WRITE_FIXED from buf, which lies within
// registered buffer index.
func (s *SQE) PrepWriteFixed(fd int, buf []byte, off uint64, index int) {
	s.prepRW(IORING_OP_WRITE_FIXED, fd, addrOfSlice(buf), len(buf), off)
	s.BufIndex = uint16(index)
}

// PrepSplice prepares IORING_OP_SPLICE, splice(2), of n bytes. The offset of
// a pipe is CurrentPosition. flags are SPLICE_F_*, and SPLICE_F_FD_IN_FIXED
// if fdIn is an index; IOSQE_FIXED_FILE speaks of fdOut.
//
// The kernel runs every splice on an io-wq worker. Fewer bytes than n break a
// link to the next operation.
func (s *SQE) PrepSplice(fdIn int, offIn uint64, fdOut int, offOut uint64, n int, flags uint32) {
	s.prepRW(IORING_OP_SPLICE, fdOut, offIn, n, offOut)
	s.SpliceFDIn, s.OpFlags = int32(fdIn), flags
}

// PrepTee prepares IORING_OP_TEE, tee(2), of n bytes from pipe to pipe.
func (s *SQE) PrepTee(fdIn, fdOut, n int, flags uint32) {
	s.prepRW(IORING_OP_TEE, fdOut, 0, n, 0)
	s.SpliceFDIn, s.OpFlags = int32(fdIn), flags
}

// PrepFsync prepares IORING_OP_FSYNC; flags is 0 or IORING_FSYNC_DATASYNC.
func (s *SQE) PrepFsync(fd int, flags uint32) {
	*s = SQE{Opcode: IORING_OP_FSYNC, FD: int32(fd), OpFlags: flags}
}

// PrepFadvise prepares IORING_OP_FADVISE, posix_fadvise(2), with FADV_*. n is
// a 32-bit field on kernels before 6.10; 0 means to the end of the file.
//
// The kernel runs all but FADV_NORMAL, FADV_RANDOM and FADV_SEQUENTIAL on an
// io-wq worker.
func (s *SQE) PrepFadvise(fd int, off uint64, n uint32, advice uint32) {
	*s = SQE{Opcode: IORING_OP_FADVISE, FD: int32(fd), Off: off, Len: n, OpFlags: advice}
}

// PrepOpenat2 prepares IORING_OP_OPENAT2, openat2(2). path is a C string
// (unix.BytePtrFromString). The kernel is done with path and how after the
// submission.
func (s *SQE) PrepOpenat2(dirfd int, path *byte, how *unix.OpenHow) {
	s.prepRW(IORING_OP_OPENAT2, dirfd, addrOf(path), int(sizeOf(*how)), addrOf(how))
}

// PrepOpenat2Direct is PrepOpenat2 into slot index of the registered files,
// or, with IORING_FILE_INDEX_ALLOC, into any free one, which CQE.Res then
// tells.
func (s *SQE) PrepOpenat2Direct(dirfd int, path *byte, how *unix.OpenHow, index uint32) {
	s.PrepOpenat2(dirfd, path, how)
	s.setFileIndex(index)
}

// setFileIndex sets file_index: 0 is no index, so the kernel counts from 1.
func (s *SQE) setFileIndex(index uint32) {
	if index != IORING_FILE_INDEX_ALLOC {
		index++
	}
	s.SpliceFDIn = int32(index)
}

// PrepClose prepares IORING_OP_CLOSE, close(2).
func (s *SQE) PrepClose(fd int) { *s = SQE{Opcode: IORING_OP_CLOSE, FD: int32(fd)} }

// PrepCloseDirect prepares IORING_OP_CLOSE of slot index of the registered
// files.
func (s *SQE) PrepCloseDirect(index uint32) {
	s.PrepClose(0)
	s.setFileIndex(index)
}

// PrepStatx prepares IORING_OP_STATX, statx(2). path is a C string; the
// kernel is done with it after the submission.
func (s *SQE) PrepStatx(dirfd int, path *byte, flags, mask uint32, stat *unix.Statx_t) {
	s.prepRW(IORING_OP_STATX, dirfd, addrOf(path), int(mask), addrOf(stat))
	s.OpFlags = flags
}

// PrepTimeout prepares IORING_OP_TIMEOUT, which completes with -ETIME after
// ts, or with 0 once count other completions (if not 0) have been posted.
// flags are IORING_TIMEOUT_*. The kernel is done with ts after the submission.
func (s *SQE) PrepTimeout(ts *unix.KernelTimespec, count uint32, flags uint32) {
	s.prepRW(IORING_OP_TIMEOUT, -1, addrOf(ts), 1, uint64(count))
	s.OpFlags = flags
}

// PrepTimeoutRemove prepares IORING_OP_TIMEOUT_REMOVE of the timeout with
// user data target.
func (s *SQE) PrepTimeoutRemove(target uint64) {
	*s = SQE{Opcode: IORING_OP_TIMEOUT_REMOVE, FD: -1, Addr: target}
}

// PrepTimeoutUpdate prepares IORING_OP_TIMEOUT_REMOVE that gives the timeout
// with user data target a new time. flags may add IORING_TIMEOUT_ABS, or
// IORING_LINK_TIMEOUT_UPDATE if target is a link timeout.
func (s *SQE) PrepTimeoutUpdate(target uint64, ts *unix.KernelTimespec, flags uint32) {
	*s = SQE{Opcode: IORING_OP_TIMEOUT_REMOVE, FD: -1, Addr: target, Off: addrOf(ts),
		OpFlags: flags | IORING_TIMEOUT_UPDATE}
}

// PrepLinkTimeout prepares IORING_OP_LINK_TIMEOUT, which limits the time of
// the operation that links to it: that one ends with -ECANCELED when it takes
// longer, and this one with -ETIME; otherwise this one ends with -ECANCELED.
// The kernel is done with ts after the submission.
func (s *SQE) PrepLinkTimeout(ts *unix.KernelTimespec, flags uint32) {
	s.prepRW(IORING_OP_LINK_TIMEOUT, -1, addrOf(ts), 1, 0)
	s.OpFlags = flags
}

// PrepCancel prepares IORING_OP_ASYNC_CANCEL of the operation with user data
// target. It completes with 0, with -ENOENT when there is none, or with
// -EALREADY when that one is running on a worker and may yet complete. With
// IORING_ASYNC_CANCEL_ALL in flags it cancels all with that user data and
// completes with their number.
func (s *SQE) PrepCancel(target uint64, flags uint32) {
	*s = SQE{Opcode: IORING_OP_ASYNC_CANCEL, FD: -1, Addr: target, OpFlags: flags}
}

// PrepCancelFD prepares IORING_OP_ASYNC_CANCEL of operations on fd: the first
// found, or all with IORING_ASYNC_CANCEL_ALL in flags.
func (s *SQE) PrepCancelFD(fd int, flags uint32) {
	*s = SQE{Opcode: IORING_OP_ASYNC_CANCEL, FD: int32(fd), OpFlags: flags | IORING_ASYNC_CANCEL_FD}
}

// PrepCancelAny prepares IORING_OP_ASYNC_CANCEL of every operation in the
// ring; it completes with their number.
func (s *SQE) PrepCancelAny() {
	*s = SQE{Opcode: IORING_OP_ASYNC_CANCEL, FD: -1,
		OpFlags: IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_ALL}
}

// PrepPollAdd prepares IORING_OP_POLL_ADD of POLL* events; CQE.Res has those
// that are ready. flags is 0 for one completion, or IORING_POLL_ADD_MULTI for
// one per wake-up, with IORING_CQE_F_MORE while it goes on.
func (s *SQE) PrepPollAdd(fd int, events uint32, flags uint32) {
	s.prepRW(IORING_OP_POLL_ADD, fd, 0, int(flags), 0)
	s.OpFlags = pollEvents(events)
}

// PrepPollRemove prepares IORING_OP_POLL_REMOVE of the poll with user data
// target.
func (s *SQE) PrepPollRemove(target uint64) {
	*s = SQE{Opcode: IORING_OP_POLL_REMOVE, FD: -1, Addr: target}
}

// PrepMsgRing prepares IORING_OP_MSG_RING, which posts a completion with res
// and userData to the ring with descriptor ringFD. If that ring counts its
// operations, as [Ring] does, userData needs [Uncounted].
func (s *SQE) PrepMsgRing(ringFD int, res int32, userData uint64) {
	s.prepRW(IORING_OP_MSG_RING, ringFD, IORING_MSG_DATA, int(uint32(res)), userData)
}

// PrepProvideBuffers prepares IORING_OP_PROVIDE_BUFFERS, which gives count
// buffers of size bytes, one after another in buf, to group bgid with IDs from
// bid on. [Ring.NewBufRing] is the cheaper way.
func (s *SQE) PrepProvideBuffers(buf []byte, size, count int, bgid, bid uint16) {
	s.prepRW(IORING_OP_PROVIDE_BUFFERS, count, addrOfSlice(buf), size, uint64(bid))
	s.BufIndex = bgid
}

// PrepRemoveBuffers prepares IORING_OP_REMOVE_BUFFERS, which takes up to
// count buffers back from group bgid and completes with their number.
func (s *SQE) PrepRemoveBuffers(count int, bgid uint16) {
	*s = SQE{Opcode: IORING_OP_REMOVE_BUFFERS, FD: int32(count), BufIndex: bgid}
}
