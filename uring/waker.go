package uring

import (
	"encoding/binary"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// Wake says how a [Loop] that waits in the kernel is told of new operations.
type Wake int

const (
	// WakeEventFD keeps a read of an eventfd in the ring. It works
	// everywhere.
	WakeEventFD Wake = iota
	// WakeMsgRing posts a completion to the ring
	// (IORING_REGISTER_SEND_MSG_RING), and falls back to the eventfd if the
	// queue or the kernel cannot.
	WakeMsgRing
)

// messenger is a queue that takes messages from any thread: a Ring.
type messenger interface {
	Message(res int32, userData uint64) error
}

// waker wakes a loop's thread from any goroutine.
type waker struct {
	mu sync.Mutex // taken after, never before, inbox.mu

	// Guarded by mu. A wake-up that comes after close must not write to a
	// descriptor that has become something else.
	efd int
	msg messenger
}

var eventOne = binary.NativeEndian.AppendUint64(nil, 1)

// open prepares to wake q's owner, who calls it.
func (w *waker) open(q Queue, how Wake) error {
	// Blocking: of a descriptor with O_NONBLOCK some kernels answer the
	// ring's read with -EAGAIN instead of waiting. Writes do not block, the
	// counter cannot fill up.
	efd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("uring: eventfd: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.efd = efd
	if m, ok := q.(messenger); ok && how == WakeMsgRing && m.Message(0, wakeMessage) == nil {
		w.msg = m
	}
	return nil
}

func (w *waker) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.efd < 0 {
		return
	}
	// A message can fail for want of memory. A wake-up must not be lost, and
	// the loop listens to the eventfd in any case.
	if w.msg != nil && w.msg.Message(0, wakeMessage) == nil {
		return
	}
	unix.Write(w.efd, eventOne)
}

func (w *waker) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.efd >= 0 {
		unix.Close(w.efd)
	}
	w.efd, w.msg = -1, nil
}
