package uring_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/uring"
)

// workers returns the thread IDs of the io-wq workers of thread tid. The
// kernel names them after the thread that submits (io_uring/io-wq.c).
func workers(t testing.TB, tid int) []int {
	t.Helper()
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	var found []int
	for _, task := range tasks {
		comm, err := os.ReadFile("/proc/self/task/" + task.Name() + "/comm")
		if err == nil && strings.TrimSpace(string(comm)) == fmt.Sprintf("iou-wrk-%d", tid) {
			id, _ := strconv.Atoi(task.Name())
			found = append(found, id)
		}
	}
	return found
}

func TestIOWQMaxWorkers(t *testing.T) {
	var tid int
	l := startLoop(t, uring.LoopConfig{Setup: func(q uring.Queue) error {
		tid = unix.Gettid()
		r := q.(*uring.Ring)
		if _, _, err := r.RegisterIOWQMaxWorkers(3, 2); err != nil {
			return err
		}
		b, u, err := r.RegisterIOWQMaxWorkers(0, 0)
		if err != nil || b != 3 || u != 2 {
			t.Errorf("worker limits %d, %d, %v, want 3 and 2", b, u, err)
		}
		return nil
	}})
	rd, w := pipe(t, 0)
	_, sink := pipe(t, 0)
	var calls []*call
	for range 8 { // each would block a worker of its own
		calls = append(calls, submit(t, l, func(s *uring.SQE) {
			s.PrepSplice(rd, uring.CurrentPosition, sink, uring.CurrentPosition, 1, 0)
		}))
	}
	time.Sleep(20 * time.Millisecond)
	if n := len(workers(t, tid)); n < 1 || n > 2 {
		t.Errorf("%d workers, limit 2", n)
	}
	unix.Write(w, make([]byte, len(calls)))
	for _, c := range calls {
		wantRes(t, "SPLICE", c.wait(t), 1)
	}
}

func TestIOWQAff(t *testing.T) {
	r := newRing(t, uring.Config{})
	var all, one, got unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil || all.Count() < 2 {
		t.Skip("one CPU")
	}
	cpu := 0
	for !all.IsSet(cpu) {
		cpu++
	}
	one.Set(cpu)
	if err := r.RegisterIOWQAff(&one); err != nil {
		t.Fatal(err)
	}
	f := tempFile(t, pattern(10))
	do(t, r, func(s *uring.SQE) { s.PrepRead(fdOf(f), make([]byte, 10), 0); s.Flags |= uring.IOSQE_ASYNC })
	for _, tid := range workers(t, unix.Gettid()) {
		if err := unix.SchedGetaffinity(tid, &got); err != nil || got != one {
			t.Errorf("worker %d: affinity %v, %v", tid, got, err)
		}
	}
	if err := r.UnregisterIOWQAff(); err != nil {
		t.Fatal(err)
	}
}

const (
	kcmpIO           = 5 // KCMP_IO of linux/kcmp.h
	ioprioWhoProcess = 1
	ioprioBE4        = 2<<13 | 4
)

// giveIOContext makes the kernel allocate the calling thread an io_context.
// Without one on either side, kcmp(2) calls two threads' equal.
func giveIOContext() error {
	if _, _, errno := unix.Syscall(unix.SYS_IOPRIO_SET, ioprioWhoProcess, 0, ioprioBE4); errno != 0 {
		return errno
	}
	return nil
}

func sameIOContext(t testing.TB, a, b int) bool {
	t.Helper()
	n, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(a), uintptr(b), kcmpIO, 0, 0, 0)
	if errno != 0 {
		t.Skip("kcmp:", errno) // CONFIG_KCMP, or ptrace forbidden
	}
	return n == 0
}

// leaveWorkersBehind puts threads with idle io-wq workers in Go's pool.
func leaveWorkersBehind(t *testing.T) {
	f := tempFile(t, pattern(10))
	var wg, all sync.WaitGroup
	all.Add(8)
	for range 8 {
		wg.Go(func() {
			r, err := uring.New(uring.Config{})
			all.Done()
			if err != nil {
				return
			}
			all.Wait() // eight threads at once
			s := r.NextSQE()
			s.PrepFsync(fdOf(f), 0)
			r.SubmitAndWait(1, -1)
			r.Close()
		})
	}
	wg.Wait()
}

// TestSharedIOContext: a loop's thread and all its io-wq workers have one
// io_context; another loop's thread has another.
//
// The threads in Go's pool have had rings before, with workers of no or of
// other io_contexts; the loops must not get those.
func TestSharedIOContext(t *testing.T) {
	leaveWorkersBehind(t)
	type contextLoop struct {
		*uring.Loop
		tid int
	}
	start := func() *contextLoop {
		l := new(contextLoop)
		var err error
		l.Loop, err = uring.StartLoop(uring.LoopConfig{Thread: func() error {
			l.tid = unix.Gettid()
			return giveIOContext()
		}})
		if err != nil {
			t.Skip(err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	a, b := start(), start()
	f := tempFile(t, pattern(1<<20))
	rd, w := pipe(t, 0)
	_, sink := pipe(t, 0)
	for _, l := range []*contextLoop{a, b} {
		blocked := make([]*call, 3) // each keeps a worker of the unbounded kind
		for i := range blocked {
			blocked[i] = submit(t, l.Loop, func(s *uring.SQE) {
				s.PrepSplice(rd, uring.CurrentPosition, sink, uring.CurrentPosition, 1, 0)
			})
		}
		for range 3 { // and some of the bounded
			wantRes(t, "FADVISE", submit(t, l.Loop, func(s *uring.SQE) {
				s.PrepFadvise(fdOf(f), 0, 1<<20, unix.FADV_WILLNEED)
			}).wait(t), 0)
		}
		ws := workers(t, l.tid)
		for deadline := time.Now().Add(waitMax); len(ws) <= len(blocked); ws = workers(t, l.tid) {
			if time.Now().After(deadline) {
				t.Fatalf("%d workers, want more than %d", len(ws), len(blocked))
			}
		}
		for _, tid := range ws {
			if !sameIOContext(t, l.tid, tid) {
				t.Errorf("worker %d has another io_context than its submitter %d", tid, l.tid)
			}
		}
		unix.Write(w, make([]byte, len(blocked)))
		for _, c := range blocked {
			wantRes(t, "SPLICE", c.wait(t), 1)
		}
	}
	if sameIOContext(t, a.tid, b.tid) {
		t.Error("two loops share an io_context")
	}
}
