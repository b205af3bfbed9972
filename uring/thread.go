package uring

import (
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// io-wq belongs to the thread, not to the ring (struct io_uring_task in the
// kernel's io_uring/tctx.c), and outlives the ring: idle workers stay for
// seconds and worker limits for good. A worker keeps the io_context it was
// started with. So a thread that had a ring once, went back to Go's pool and
// is then given an I/O priority for the next ring has workers of another
// io_context: a shared context that silently is not. Hence the book of threads
// that have had a ring, and new threads for loops.

var ringThreads = struct {
	mu sync.Mutex

	// Guarded by mu. Thread IDs; those of threads that have ended do no
	// harm.
	had map[int]bool
}{had: make(map[int]bool)}

// noteRing records that the calling thread has a ring.
func noteRing() {
	ringThreads.mu.Lock()
	defer ringThreads.mu.Unlock()
	ringThreads.had[unix.Gettid()] = true
}

// forgetThread takes the calling thread out of the book, for it is about to
// end, and reports whether it was in.
func forgetThread() bool {
	ringThreads.mu.Lock()
	defer ringThreads.mu.Unlock()
	had := ringThreads.had[unix.Gettid()]
	delete(ringThreads.had, unix.Gettid())
	return had
}

// onNewThread runs f in a goroutine on a thread that has not had a ring. The
// thread ends with f, and with it its io-wq and whatever f changed of it.
func onNewThread(f func()) {
	go func() {
		// Never unlocked: the runtime ends a thread whose goroutine ends
		// locked to it.
		runtime.LockOSThread()
		if forgetThread() {
			onNewThread(f) // runs elsewhere: this thread takes nobody else
			return
		}
		defer forgetThread()
		f()
	}()
}
