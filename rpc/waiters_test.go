package rpc

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// waitingProgram has one procedure, which waits for the gate of its class.
type waitingProgram struct {
	running atomic.Int32
	most    atomic.Int32
	gate    chan struct{}
}

func (p *waitingProgram) handle(*Call) Result {
	n := p.running.Add(1)
	for m := p.most.Load(); n > m && !p.most.CompareAndSwap(m, n); m = p.most.Load() {
	}
	<-p.gate
	p.running.Add(-1)
	return Done
}

// collect counts what comes back.
type collect struct {
	mu   sync.Mutex
	done int
}

func (d *collect) complete(w *waitingCall) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.done++
	w.release()
}

func (d *collect) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.done
}

// poolOf makes a pool whose programs 1 and 2 wait for gates of their own. It must
// run in a bubble of synctest: time is fake, and stop ends the threads.
func poolOf(a, b *waitingProgram) (w *waiters, stop func()) {
	program := func(number uint32, p *waitingProgram) Program {
		return Program{Number: number, Name: "wait", Versions: []Version{{Number: 1, Procs: []Procedure{{Name: "WAIT", Handle: p.handle}}}}}
	}
	s := &Server{cfg: Config{NewThread: func() any { return nil }, PlaceWaiting: func(int) Placement { return Placement{} }}, table: newTable([]Program{program(1, a), program(2, b)}), stop: make(chan struct{})}
	w = newWaiters(s)
	s.waiters = w
	go w.shrinkLoop(s.stop)
	return w, func() { close(s.stop) }
}

// submitCalls queues calls of a program in the class of the same number.
func submitCalls(w *waiters, to destination, prog uint32, n int) {
	rec := make([]byte, minRecord+16)
	rec[11], rec[15], rec[19] = rpcVersion, byte(prog), 1
	for range n {
		c := newWaitingCall(to, rec)
		c.class = uint64(prog)
		w.submit(c)
	}
}

// A class that hangs takes no more than its share of the threads: calls of other
// classes run, and its own go on in turn when it no longer hangs.
func TestWaitersClassLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hung, quick := &waitingProgram{gate: make(chan struct{})}, &waitingProgram{gate: make(chan struct{})}
		close(quick.gate)
		w, stop := poolOf(hung, quick)
		defer stop()
		var hungDone, quickDone collect
		submitCalls(w, &hungDone, 1, 5*waitersPerClass)
		synctest.Wait()
		if n := hung.running.Load(); n != waitersPerClass {
			t.Errorf("%d calls of the hung class run, want %d", n, waitersPerClass)
		}
		if w.threads != waitersPerClass {
			t.Errorf("%d threads for the %d calls that may run", w.threads, waitersPerClass)
		}
		submitCalls(w, &quickDone, 2, 100)
		synctest.Wait()
		if n := quickDone.count(); n != 100 {
			t.Errorf("%d of 100 calls of another class are done", n)
		}
		close(hung.gate)
		synctest.Wait()
		if n := hungDone.count(); n != 5*waitersPerClass {
			t.Errorf("%d of %d calls are done in the end", n, 5*waitersPerClass)
		}
		if n := hung.most.Load(); n != waitersPerClass {
			t.Errorf("%d calls of one class ran at once, want %d", n, waitersPerClass)
		}
	})
}

// The pool grows to what waits at once and shrinks to nothing when there is
// nothing to do; then it grows again.
func TestWaitersGrowAndShrink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := &waitingProgram{gate: make(chan struct{})}, &waitingProgram{gate: make(chan struct{})}
		w, stop := poolOf(a, b)
		defer stop()
		threads := func() (threads, classes int) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.threads, len(w.classes)
		}
		var done collect
		submitCalls(w, &done, 1, 20)
		submitCalls(w, &done, 2, 10)
		synctest.Wait()
		if n, _ := threads(); n != 30 {
			t.Errorf("%d threads for 30 calls that wait", n)
		}
		time.Sleep(3 * waiterIdle)
		synctest.Wait()
		if n, _ := threads(); n != 30 {
			t.Errorf("%d threads after a while, with 30 calls that still wait", n)
		}
		close(a.gate)
		close(b.gate)
		synctest.Wait()
		time.Sleep(3 * waiterIdle)
		synctest.Wait()
		if n, classes := threads(); n != 0 || classes != 0 {
			t.Errorf("%d threads and %d classes long after the last call", n, classes)
		}
		submitCalls(w, &done, 1, 5)
		synctest.Wait()
		if n := done.count(); n != 35 {
			t.Errorf("%d of 35 calls are done", n)
		}
	})
}

// Calls of one class run in the order in which they came, on threads that are
// reused.
func TestWaitersReuseThreads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := &waitingProgram{gate: make(chan struct{})}, &waitingProgram{gate: make(chan struct{})}
		close(a.gate)
		w, stop := poolOf(a, b)
		defer stop()
		var done collect
		for range 500 {
			submitCalls(w, &done, 1, 1)
			synctest.Wait()
		}
		if done.count() != 500 || w.threads > 2 {
			t.Errorf("%d of 500 calls done, one after the other, on %d threads", done.count(), w.threads)
		}
	})
}
