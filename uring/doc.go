// Package uring speaks to the kernel's io_uring, without cgo.
//
// # A tour
//
// A [Ring] is a submission and a completion queue shared with the kernel. It
// belongs to the OS thread it was made on. Take an [SQE] with NextSQE, fill it
// with one of its Prep methods, add flags and user data, enter the kernel with
// SubmitAndWait, and take [CQE] values with Reap:
//
//	r, err := uring.New(uring.Config{})
//	s := r.NextSQE()
//	s.PrepRead(fd, buf, 0)
//	s.UserData = 7
//	_, err = r.SubmitAndWait(1, -1)
//	n := r.Reap(cqes)
//
// A [Loop] runs a ring on a thread of its own for any number of goroutines:
// submit an [Op], and its Done is called on the loop's thread. It submits and
// reaps in batches, allocates nothing per operation, and when closed cancels
// and awaits all that is in the kernel.
//
// Both are built on the interface [Queue], of which package uringtest has a
// fake with seeded faults, to test code that submits.
//
// [NewProbe] tells what the running kernel can do; nothing here looks at
// versions. A failure is an [*Error] that explains the errno and, if no ring
// can be made at all, names the sysctl, limit or seccomp profile to look at;
// what the kernel lacks is an [ErrNotSupported].
//
// Where to read: abi.go and its neighbours have the kernel's names; ring.go
// how entries travel, ring_unsafe.go the shared memory; ledger.go the counts
// of what is queued and what is in the kernel; prep.go the operations;
// loop_run.go one turn of the loop. limits.go has every bound.
//
// # Memory
//
// The kernel reads and writes memory by address, and Go's collector does not
// know. The Prep methods move what they are given to the heap, so its address
// stays good. Keeping it reachable until the operation's last completion is
// the caller's duty with a Ring; a Loop keeps the Op, and with it Op.Keep.
// Descriptors must stay open as long.
//
// A completion with CQE.More is not the last: multishot operations go on, and
// a zero-copy send still reads its buffer.
//
// # Kernel facts relied on
//
// Manual pages are liburing's; sources are the kernel's io_uring/.
//
//   - With IORING_FEAT_NODROP (5.5) a full completion queue loses nothing:
//     completions wait in the kernel, IORING_SQ_CQ_OVERFLOW says so, and an
//     enter with IORING_ENTER_GETEVENTS moves them in (io_uring_setup(2)).
//     So a ring may have more in the kernel than its queue holds. New refuses
//     kernels without it.
//   - With IORING_FEAT_EXT_ARG (5.11) an enter takes a timeout
//     (io_uring_enter(2)). New refuses kernels without it.
//   - With IORING_FEAT_SUBMIT_STABLE (5.5) what an operation only describes
//     with (iovecs, timespecs, paths) is the caller's after the submission.
//   - io_uring_enter(2) answers with a count or with an error, never both. The
//     submission queue's head tells what was taken in either case.
//   - IORING_SETUP_DEFER_TASKRUN (6.1) lets completions appear only in an
//     enter with IORING_ENTER_GETEVENTS, by the ring's owner
//     (io_uring_setup(2)), except those of operations that complete within
//     their submission: fewer interruptions, and the reason to call
//     SubmitAndWait even if only to look. IORING_SETUP_TASKRUN_FLAG tells when
//     such an enter is worth it.
//   - A chain of linked operations ends where a submission ends
//     (io_uring_linked_requests(7)); so a Loop places whole chains, and a Ring
//     severs a chain that was taken in part. An operation that the kernel does
//     not know fails its whole chain before anything runs (io_uring.c,
//     io_submit_fail_init).
//   - A polling thread that serves several rings (IORING_SETUP_SQPOLL with
//     IORING_SETUP_ATTACH_WQ) takes eight entries of a ring at a time, and so
//     ends chains anywhere (sqpoll.c, IORING_SQPOLL_CAP_ENTRIES_VALUE). Link
//     nothing on such a ring.
//   - A read or splice that falls short breaks a link like an error does
//     (splice.c, rw.c). A hard link holds.
//   - An operation with IOSQE_CQE_SKIP_SUCCESS (5.17) that fails posts its
//     completion and silences the rest of its chain (io_uring_enter(2)). Hence
//     [Uncounted]. Once a ring has seen such an operation, IOSQE_IO_DRAIN is
//     not for it any more (ibid.).
//   - io-wq workers belong to the submitting thread, inherit its io_context
//     (CLONE_IO, kernel/fork.c, create_io_thread) and outlive the ring by some
//     seconds; worker limits stay with the thread (tctx.c, io-wq.c). Hence a
//     Loop's thread is new and ends with it. A thread without an I/O priority
//     may have no io_context to share yet: set one in LoopConfig.Thread.
//   - When a thread ends, the kernel cancels what it has submitted (cancel.c,
//     io_uring_cancel_generic). A goroutine that ends while locked ends its
//     thread.
//   - Splices, and advice to fetch pages, always run on workers
//     (REQ_F_FORCE_ASYNC in splice.c and advise.c). A splice to a
//     non-blocking socket that is full ends with -EAGAIN, and what was in the
//     pipe stays there.
//   - An operation on a file that can be polled does not occupy a worker while
//     it waits, even with IOSQE_ASYNC: it is tried without blocking and polled
//     for (io_uring.c, io_wq_submit_work).
//   - A disk read that has begun cannot be cancelled: IORING_OP_ASYNC_CANCEL
//     answers -EALREADY (io_uring_cancelation(7)). Close waits for it.
//   - IORING_REGISTER_SEND_MSG_RING (6.13) posts to a ring from a thread that
//     has none (io_uring_register_sync_msg(3)).
package uring
