package rpc

import (
	"fmt"
	"net/netip"
	"runtime"
	"sync"
	"time"
)

// waitingCall is a call that cannot be answered without waiting: a copy of its
// record, and later its reply.
type waitingCall struct {
	to      destination
	peer    netip.AddrPort
	local   any
	udp     bool
	class   uint64
	attempt int
	rec     []byte

	again   bool   // run again on a server thread; there is no reply yet
	gaveUp  bool   // what it was parked for does not come
	reply   []byte // with room for the record mark in front
	payload Payload

	next *waitingCall // in its class's queue
}

// destination takes finished calls: a TCP connection or a UDP socket.
type destination interface{ complete(*waitingCall) }

var waitingCalls = sync.Pool{New: func() any { return new(waitingCall) }}

func newWaitingCall(to destination, rec []byte) *waitingCall {
	w := waitingCalls.Get().(*waitingCall)
	w.to, w.rec = to, append(w.rec[:0], rec...)
	return w
}

// release gives the call back, with all it holds.
func (w *waitingCall) release() {
	if w.payload != nil {
		w.payload.Release()
	}
	*w = waitingCall{rec: w.rec[:0], reply: w.reply[:0]}
	waitingCalls.Put(w)
}

// run executes the call and delivers it.
func (w *waitingCall) run(env *callEnv, buf []byte) {
	c := &env.call
	c.Peer, c.Conn, c.UDP, c.Attempt, c.GaveUp = w.peer, w.local, w.udp, w.attempt, w.gaveUp
	c.Reply = append(buf, 0, 0, 0, 0)
	res, _ := env.run(w.rec)
	w.again = res == Again
	if !w.again {
		w.reply = append(w.reply[:0], c.Reply...)
	}
	w.payload, c.Payload = c.Payload, nil
	w.to.complete(w)
}

// waiters is a pool of threads for calls that wait. It grows while every thread
// waits. Calls are queued by class (a disk, say), and a class may occupy
// waitersPerClass threads, so that one that hangs leaves room for the others.
type waiters struct {
	srv *Server

	mu      sync.Mutex
	wake    sync.Cond
	classes []*waitClass // round robin, from turn on
	turn    int
	idle    int
	fresh   int // threads that have not looked for a call yet
	idleMin int // idle threads that no call since the last shrink needed
	retire  int // threads that should end
	threads int
	names   []bool     // by thread number: in use
	counts  []counters // by thread number
	stopped bool
}

type waitClass struct {
	id         uint64
	head, tail *waitingCall
	queued     int
	running    int
}

func newWaiters(s *Server) *waiters {
	w := &waiters{srv: s, names: make([]bool, maxWaiters), counts: make([]counters, maxWaiters)}
	w.wake.L = &w.mu
	return w
}

// submit queues a call and sees to it that a thread takes it.
func (w *waiters) submit(c *waitingCall) {
	w.mu.Lock()
	defer w.mu.Unlock()
	cl := w.class(c.class)
	if cl.head == nil {
		cl.head = c
	} else {
		cl.tail.next = c
	}
	cl.tail = c
	cl.queued++
	w.engage()
}

// engage wakes or starts a thread if there is a call that may run.
func (w *waiters) engage() {
	runnable := 0
	for _, cl := range w.classes {
		runnable += min(cl.queued, waitersPerClass-cl.running)
	}
	switch {
	case runnable == 0:
	case w.idle+w.fresh < runnable && w.threads < maxWaiters && !w.stopped:
		w.start()
	default:
		w.wake.Signal()
	}
}

func (w *waiters) class(id uint64) *waitClass {
	for _, cl := range w.classes {
		if cl.id == id {
			return cl
		}
	}
	cl := &waitClass{id: id}
	w.classes = append(w.classes, cl)
	return cl
}

// start begins a thread under the lowest free number.
func (w *waiters) start() {
	n := 0
	for w.names[n] {
		n++
	}
	w.names[n] = true
	w.threads++
	w.fresh++
	if w.counts[n] == nil {
		w.counts[n] = w.srv.newCounters()
	}
	go w.loop(n)
}

// loop runs calls until the thread is told to end. The OS thread ends with it,
// since handlers may have changed its credentials.
func (w *waiters) loop(n int) {
	runtime.LockOSThread()
	w.srv.cfg.PlaceWaiting(n).begin(fmt.Sprintf("sl-w%02d", n))
	env := callEnv{table: w.srv.table, counts: w.counts[n]}
	env.call.MayBlock = true
	env.call.Thread = w.srv.cfg.NewThread()
	buf := make([]byte, 0, markLen+acceptedLen+w.srv.table.maxReply)
	for fresh := true; ; fresh = false {
		c, cl := w.take(n, fresh)
		if c == nil {
			return
		}
		c.run(&env, buf)
		w.finished(cl)
	}
}

// take waits for a call; nil ends thread n.
func (w *waiters) take(n int, fresh bool) (*waitingCall, *waitClass) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if fresh {
		w.fresh--
	}
	for {
		if c, cl := w.pick(); c != nil {
			w.idleMin = min(w.idleMin, w.idle)
			return c, cl
		}
		if w.stopped || w.retire > 0 {
			w.retire = max(0, w.retire-1)
			w.threads--
			w.names[n] = false
			return nil, nil
		}
		w.idle++
		w.wake.Wait()
		w.idle--
	}
}

// pick takes the next call of the next class that may run.
func (w *waiters) pick() (*waitingCall, *waitClass) {
	for i := range w.classes {
		cl := w.classes[(w.turn+i)%len(w.classes)]
		if cl.head == nil || cl.running >= waitersPerClass {
			continue
		}
		w.turn = (w.turn + i + 1) % len(w.classes)
		c := cl.head
		cl.head, c.next = c.next, nil
		cl.queued--
		cl.running++
		return c, cl
	}
	return nil, nil
}

func (w *waiters) finished(cl *waitClass) {
	w.mu.Lock()
	defer w.mu.Unlock()
	cl.running--
	if cl.running == waitersPerClass-1 {
		w.engage() // a call may have been held back
	}
}

// shrinkLoop ends threads that had nothing to do for a whole period.
func (w *waiters) shrinkLoop(stop <-chan struct{}) {
	tick := time.NewTicker(waiterIdle)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			w.mu.Lock()
			w.stopped = true
			w.mu.Unlock()
			w.wake.Broadcast()
			return
		case <-tick.C:
			w.mu.Lock()
			w.retire, w.idleMin = w.idleMin, w.idle
			w.forgetClasses()
			w.mu.Unlock()
			w.wake.Broadcast()
		}
	}
}

// forgetClasses drops classes without calls, so that the list stays short while
// file systems come and go.
func (w *waiters) forgetClasses() {
	kept := w.classes[:0]
	for _, cl := range w.classes {
		if cl.head != nil || cl.running > 0 {
			kept = append(kept, cl)
		}
	}
	clear(w.classes[len(kept):])
	w.classes, w.turn = kept, 0
}
