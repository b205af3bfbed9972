package uring

import (
	"fmt"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"
)

// Registration is for the ring's owner, like submission, except where a method
// says otherwise. The commands and their errors are in io_uring_register(2).

// none stands for the argument of commands that take none.
var none *byte

func (r *Ring) unregister(op RegisterOp) error {
	_, err := registerArg(r.fd, op, none, 0)
	return err
}

// RegisterFiles registers descriptors, which operations then name by index,
// with IOSQE_FIXED_FILE, and save the kernel a look-up and a reference each. A
// -1 leaves a slot empty.
func (r *Ring) RegisterFiles(fds []int32) error {
	_, err := registerArg(r.fd, IORING_REGISTER_FILES, sliceData(fds), len(fds))
	return err
}

// RegisterFilesSparse registers n empty slots (Linux 5.19).
func (r *Ring) RegisterFilesSparse(n int) error {
	arg := io_uring_rsrc_register{nr: uint32(n), flags: IORING_RSRC_REGISTER_SPARSE}
	_, err := registerArg(r.fd, IORING_REGISTER_FILES2, &arg, int(sizeOf(arg)))
	return err
}

// UpdateFiles replaces the slots from offset on: -1 empties one,
// IORING_REGISTER_FILES_SKIP leaves it. It returns how many it processed.
// Operations that use the old file keep it until they end.
func (r *Ring) UpdateFiles(offset int, fds []int32) (int, error) {
	arg := io_uring_rsrc_update{offset: uint32(offset), data: addrOfSlice(fds)}
	n, err := registerArg(r.fd, IORING_REGISTER_FILES_UPDATE, &arg, len(fds))
	runtime.KeepAlive(fds)
	return n, err
}

// UnregisterFiles drops the whole table.
func (r *Ring) UnregisterFiles() error { return r.unregister(IORING_UNREGISTER_FILES) }

// RegisterBuffers pins buffers for READ_FIXED, WRITE_FIXED and SEND_ZC. The
// ring keeps them reachable until they are unregistered. Their memory counts
// against RLIMIT_MEMLOCK.
func (r *Ring) RegisterBuffers(bufs [][]byte) error {
	v := iovecs(bufs)
	if _, err := registerArg(r.fd, IORING_REGISTER_BUFFERS, sliceData(v), len(v)); err != nil {
		return err
	}
	r.buffers = slices.Clone(bufs)
	return nil
}

// RegisterBuffersSparse registers n empty buffer slots (Linux 5.19).
func (r *Ring) RegisterBuffersSparse(n int) error {
	arg := io_uring_rsrc_register{nr: uint32(n), flags: IORING_RSRC_REGISTER_SPARSE}
	if _, err := registerArg(r.fd, IORING_REGISTER_BUFFERS2, &arg, int(sizeOf(arg))); err != nil {
		return err
	}
	r.buffers = make([][]byte, n)
	return nil
}

// UpdateBuffers replaces the buffer slots from offset on. An empty buffer
// empties its slot. An old buffer must be left alone until the operations that
// use it have ended.
func (r *Ring) UpdateBuffers(offset int, bufs [][]byte) error {
	if offset < 0 || offset+len(bufs) > len(r.buffers) {
		return fmt.Errorf("uring: UpdateBuffers: slots %d to %d are not within the %d registered", offset, offset+len(bufs), len(r.buffers))
	}
	v := iovecs(bufs)
	arg := io_uring_rsrc_update2{offset: uint32(offset), data: addrOfSlice(v), nr: uint32(len(v))}
	_, err := registerArg(r.fd, IORING_REGISTER_BUFFERS_UPDATE, &arg, int(sizeOf(arg)))
	runtime.KeepAlive(v)
	if err == nil {
		copy(r.buffers[offset:], bufs)
	}
	return err
}

// UnregisterBuffers unpins all buffers.
func (r *Ring) UnregisterBuffers() error {
	if err := r.unregister(IORING_UNREGISTER_BUFFERS); err != nil {
		return err
	}
	r.buffers = nil
	return nil
}

// RegisterEventFD makes the kernel add 1 to eventfd efd for every completion,
// or, with asyncOnly, for those that did not complete within the submission.
func (r *Ring) RegisterEventFD(efd int, asyncOnly bool) error {
	op := IORING_REGISTER_EVENTFD
	if asyncOnly {
		op = IORING_REGISTER_EVENTFD_ASYNC
	}
	arg := int32(efd)
	_, err := registerArg(r.fd, op, &arg, 1)
	return err
}

// UnregisterEventFD undoes RegisterEventFD.
func (r *Ring) UnregisterEventFD() error { return r.unregister(IORING_UNREGISTER_EVENTFD) }

// RegisterIOWQMaxWorkers bounds the io-wq workers of the calling thread, per
// NUMA node: bounded ones (regular files and block devices) and unbounded ones
// (everything that may wait for ever; splices to sockets). 0 leaves a bound as
// it is. It returns the bounds before. They hold for the thread's next rings
// too.
func (r *Ring) RegisterIOWQMaxWorkers(bounded, unbounded uint32) (oldBounded, oldUnbounded uint32, err error) {
	arg := [2]uint32{IO_WQ_BOUND: bounded, IO_WQ_UNBOUND: unbounded}
	_, err = registerArg(r.fd, IORING_REGISTER_IOWQ_MAX_WORKERS, &arg, len(arg))
	return arg[IO_WQ_BOUND], arg[IO_WQ_UNBOUND], err
}

// RegisterIOWQAff pins the io-wq workers of the calling thread to cpus.
func (r *Ring) RegisterIOWQAff(cpus *unix.CPUSet) error {
	_, err := registerArg(r.fd, IORING_REGISTER_IOWQ_AFF, cpus, int(sizeOf(*cpus)))
	return err
}

// UnregisterIOWQAff lets the workers run anywhere again.
func (r *Ring) UnregisterIOWQAff() error { return r.unregister(IORING_UNREGISTER_IOWQ_AFF) }

// Enable starts a ring that was made with IORING_SETUP_R_DISABLED. With
// IORING_SETUP_SINGLE_ISSUER the calling thread becomes its owner.
func (r *Ring) Enable() error {
	noteRing()
	return r.unregister(IORING_REGISTER_ENABLE_RINGS)
}

// RegisterRingFD registers the ring's own descriptor with the calling thread,
// which saves each enter a reference to the file: in a process with threads,
// an atomic operation on a shared cache line. A thread has 16 such slots.
func (r *Ring) RegisterRingFD() error {
	arg := io_uring_rsrc_update{offset: ^uint32(0), data: uint64(r.fd)} // any slot
	if _, err := registerArg(r.fd, IORING_REGISTER_RING_FDS, &arg, 1); err != nil {
		return err
	}
	r.enterFD, r.enterFlags = int(arg.offset), IORING_ENTER_REGISTERED_RING
	return nil
}

// UnregisterRingFD undoes RegisterRingFD.
func (r *Ring) UnregisterRingFD() error {
	arg := io_uring_rsrc_update{offset: uint32(r.enterFD)}
	if _, err := registerArg(r.fd, IORING_UNREGISTER_RING_FDS, &arg, 1); err != nil {
		return err
	}
	r.enterFD, r.enterFlags = r.fd, 0
	return nil
}

// Message posts a completion with res and userData to r, from any thread and
// without a ring of its own (IORING_REGISTER_SEND_MSG_RING, Linux 6.13).
// userData needs [Uncounted]. The caller sees to it that r is not closed
// meanwhile.
func (r *Ring) Message(res int32, userData uint64) error {
	var sqe SQE
	sqe.PrepMsgRing(r.fd, res, userData)
	_, err := registerArg(-1, IORING_REGISTER_SEND_MSG_RING, &sqe, 1)
	return err
}
