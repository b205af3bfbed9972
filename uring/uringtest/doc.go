// Package uringtest has a ring that is not the kernel's: a [Ring] behind
// [uring.Queue] that carries operations out itself, with plain system calls,
// and on the way does what the kernel may do but seldom does. Completions come
// in any order; transfers fall short or end with -EAGAIN, -EINTR, -ENOBUFS or
// -EIO; the kernel takes half of a batch; the completion queue overflows;
// cancellations come too late; multishot operations end early.
//
// All choices come from one seed. As long as one goroutine drives the ring and
// its operations depend on nobody else (files and pipes, not timers and
// peers), the same seed gives the same run, so a failure that a test prints
// the seed of can be looked at again.
//
// The operations really happen. What a fault reports not done is not done: a
// short write has written what it says. Code that copes with every seed copes
// with files and sockets as they are.
//
// The ring knows the operations of [uring] but for fixed buffers' registration
// (READ_FIXED and WRITE_FIXED take any memory), buffer rings (use
// IORING_OP_PROVIDE_BUFFERS) and IORING_OP_MSG_RING, and fails others with
// -EINVAL, as an old kernel would. A splice to a blocking socket that is full
// blocks the whole ring; make the socket non-blocking. Offsets are passed to
// system calls in one register, so the machine must have 64 bits.
package uringtest
