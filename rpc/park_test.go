package rpc

import (
	"encoding/binary"
	"runtime"
	"sync"
	"testing"
	"time"

	"sluice/rpc/xdr"
)

// parkingLot collects parked calls, by their argument.
type parkingLot struct {
	mu     sync.Mutex
	parked map[uint32]*ParkedCall
}

func (l *parkingLot) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.parked)
}

func (l *parkingLot) take(n uint32) *ParkedCall {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.parked[n]
	delete(l.parked, n)
	return p
}

// program has one procedure, which parks its calls once and then answers with its
// argument and how often it ran before.
func (l *parkingLot) program() Program {
	return Program{Number: 77, Name: "test", Versions: []Version{{Number: 1, Procs: []Procedure{
		0: {Name: "NULL", Handle: Null},
		1: {Name: "PARK", Handle: func(c *Call) Result {
			n := c.Args.Uint32()
			if c.Attempt == 0 {
				l.mu.Lock()
				defer l.mu.Unlock()
				c.Reply = append(c.Reply, "not to be seen"...)
				l.parked[n] = c.Park()
				return Parked
			}
			c.Reply = xdr.AppendUint32(c.Reply, n)
			c.Reply = xdr.AppendUint32(c.Reply, uint32(c.Attempt))
			c.Reply = xdr.AppendBool(c.Reply, c.GaveUp)
			return Done
		}, MaxReply: 32},
	}}}}
}

// Parked calls are answered when they are resumed, in that order, and other calls
// of their connection meanwhile. They need no thread.
func TestPark(t *testing.T) {
	lot := &parkingLot{parked: make(map[uint32]*ParkedCall)}
	s, addr := startTestServer(t, Config{Programs: []Program{lot.program()}, Threads: 2, MaxConns: 10})
	c := dialTest(t, addr)
	const calls = 40
	for i := range uint32(calls) {
		if _, err := c.Write(fragments(callRecord(i, 1, binary.BigEndian.AppendUint32(nil, i)))); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "all calls parked", func() bool { return lot.len() == calls })
	if n := s.Stats().Waiting; n != 0 {
		t.Errorf("%d waiting threads for parked calls", n)
	}
	if r := exchange(t, c, callRecord(1000, 0, nil)); binary.BigEndian.Uint32(r) != 1000 {
		t.Error("another call is not answered meanwhile")
	}
	for i := range uint32(calls) {
		xid := (i*7 + 3) % calls // some other order
		lot.take(xid).Resume(xid%2 == 1)
		r := readRecord(t, c)
		want := binary.BigEndian.AppendUint32(nil, xid)
		want = binary.BigEndian.AppendUint32(want, 1)
		want = binary.BigEndian.AppendUint32(want, xid%2)
		if binary.BigEndian.Uint32(r) != xid || string(r[24:]) != string(want) {
			t.Fatalf("reply %x, want xid %d and %x", r, xid, want)
		}
	}
}

// A call whose connection has gone is dropped when it is resumed; one that is
// resumed before its handler has returned is not lost.
func TestParkRaces(t *testing.T) {
	lot := &parkingLot{parked: make(map[uint32]*ParkedCall)}
	_, addr := startTestServer(t, Config{Programs: []Program{lot.program()}, Threads: 4, MaxConns: 100})
	for i := range uint32(50) {
		c := dialTest(t, addr)
		if _, err := c.Write(fragments(callRecord(i, 1, binary.BigEndian.AppendUint32(nil, i)))); err != nil {
			t.Fatal(err)
		}
		var p *ParkedCall
		for p == nil { // as early as can be
			runtime.Gosched()
			p = lot.take(i)
		}
		if i%2 == 0 {
			c.Close()
			p.Resume(false)
			continue
		}
		p.Resume(false)
		if r := readRecord(t, c); binary.BigEndian.Uint32(r) != i {
			t.Fatalf("reply %x", r)
		}
	}
}

// A connection parks no more than maxWaiting calls; the next ones are read when
// some have been answered.
func TestParkBound(t *testing.T) {
	lot := &parkingLot{parked: make(map[uint32]*ParkedCall)}
	_, addr := startTestServer(t, Config{Programs: []Program{lot.program()}, Threads: 2, MaxConns: 10})
	c := dialTest(t, addr)
	const calls = maxWaiting + 10
	for i := range uint32(calls) {
		if _, err := c.Write(fragments(callRecord(i, 1, binary.BigEndian.AppendUint32(nil, i)))); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the bound", func() bool { return lot.len() == maxWaiting })
	time.Sleep(50 * time.Millisecond)
	if n := lot.len(); n != maxWaiting {
		t.Fatalf("%d calls parked, the bound is %d", n, maxWaiting)
	}
	for i := range uint32(calls) {
		var p *ParkedCall
		eventually(t, "the next call", func() bool { p = lot.take(i); return p != nil })
		p.Resume(false)
		readRecord(t, c)
	}
}
