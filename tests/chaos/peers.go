package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"sluice/tests/protocol/wire"
)

var peerFaults = []fault{
	{"peer", "connection storms", attackWith(storm)},
	{"peer", "calls one byte at a time, in fragments of one byte", attackWith(trickle)},
	{"peer", "garbage", attackWith(garbage)},
	{"peer", "records that promise up to 2 GiB, and fragments without end", attackWith(promises)},
	{"peer", "replies sent as calls", attackWith(replies)},
	{"peer", "retransmissions and duplicate XIDs", attackWith(duplicates)},
	{"peer", "half-open: a part of a call, then nothing", attackWith(halfOpen)},
	{"peer", "receivers that ask for 1 MiB and never read", attackWith(stalledReceivers)},
	{"peer", "one client takes every connection it can get", attackWith(greedy)},
	{"peer", "MNT and UMNT without end, for the log and the list of mounts", attackWith(mounts)},
	{"peer", "1,000 connections that read", manyReaders},
	{"peer", "10,000 idle connections", attackWith(idle)},
}

// peerTimeout is --peer-timeout in these trials: short, but not so short that a
// reader on a busy machine falls under it.
const peerTimeout = 5 * time.Second

// victim is what an attack is upon.
type victim struct {
	*trial
	*server
	src  source
	root []byte
}

// paceLimit is how long a reader may wait for a reply while others attack.
const paceLimit = 5 * time.Second

// attackWith makes a trial of an attack: readers go on meanwhile, quickly, and
// memory stays under its bound, which is the same for a short attack and a long
// one; afterwards the server holds what it held before, and its log is short.
func attackWith(attack func(*victim)) func(*trial) {
	return func(t *trial) {
		dir := t.tmpfs("data")
		t.must(os.WriteFile(dir+"/small", []byte("small"), 0o644))
		s := t.serve(export(dir, "fsid=1"), "--peer-timeout", peerTimeout.String(), "--max-connections", "12000")
		v := &victim{trial: t, server: s, src: t.makeSource(s, dir, "f", 32<<20)}
		v.root = get(t.dial(s).mount(dir))(t)
		before, began := s.gauge(), time.Now()
		r := t.startReaders(s, v.src, 2, false)
		attack(v)
		r.checkPace(paceLimit)
		s.checkMemory(0)
		s.checkSettled(before)
		if n := strings.Count(s.log.String(), "\n"); n > 200+10*int(time.Since(began)/time.Second) {
			t.errorf("the attack has made the server write %d lines to its log", n)
		}
		t.must(pingOnce(s.addr))
	}
}

// crowd runs f in several goroutines, again and again until the time is over.
func (v *victim) crowd(n int, f func(*rand.Rand) error) {
	var all sync.WaitGroup
	ctx := v.until()
	for range n {
		rnd := rand.New(rand.NewPCG(v.rnd.Uint64(), 0))
		all.Go(func() {
			for ctx.Err() == nil {
				if err := f(rnd); err != nil {
					v.errorf("%w", err)
					return
				}
				v.tried.Add(1)
			}
		})
	}
	all.Wait()
}

func (v *victim) getattrRecord(xid uint32) []byte {
	call := wire.NewCall(wire.NFS, 3, wire.Getattr, fhArgs(v.root))
	call.XID = xid
	return call.Record()
}

func (v *victim) readRecord(xid uint32) []byte {
	call := wire.NewCall(wire.NFS, 3, wire.Read, readArgs(v.src.fh, 0, 1<<20))
	call.XID = xid
	return call.Record()
}

// storm connects and goes away in every way there is.
func storm(v *victim) {
	v.crowd(6, func(rnd *rand.Rand) error {
		c, err := dial(v.addr)
		if err != nil {
			return err
		}
		defer c.conn.Close()
		_ = c.conn.SetLinger(0)
		switch rnd.IntN(4) {
		case 0: // nothing
		case 1:
			_ = c.conn.Send(wire.Mark(v.readRecord(1)))
		case 2:
			rec := wire.Mark(v.readRecord(1))
			_ = c.conn.Send(rec[:rnd.IntN(len(rec))])
		case 3:
			_, err = c.call(wire.NFS, 3, wire.Null, nil)
		}
		return err
	})
}

// trickle sends a good call so that each byte is a segment and a fragment.
func trickle(v *victim) {
	v.crowd(8, func(*rand.Rand) error {
		c, err := dial(v.addr)
		if err != nil {
			return err
		}
		defer c.conn.Close()
		_ = c.conn.SetLinger(0)
		rec := v.getattrRecord(5)
		for i := range rec {
			for _, b := range wire.Fragment(rec[i:i+1], i == len(rec)-1) {
				if err := c.conn.Send([]byte{b}); err != nil {
					return err
				}
			}
		}
		return expectReply(c, 5)
	})
}

func expectReply(c *client, xid uint32) error {
	rec, err := c.conn.Receive()
	if err != nil {
		return err
	}
	r, err := wire.ParseReply(rec)
	if err == nil && (r.XID != xid || r.Denied || r.Stat != wire.Success) {
		err = fmt.Errorf("got %+v, want success for %d", r, xid)
	}
	return err
}

// expectEnd waits for the server to end the connection. Replies may come first.
func expectEnd(c *client) error {
	c.conn.SetReadDeadline(time.Now().Add(wire.Timeout))
	_, err := io.Copy(io.Discard, c.conn)
	if err == nil || gone(err) {
		return nil
	}
	return fmt.Errorf("the server has not ended a connection: %w", err)
}

// gone says that err is the peer's end.
func gone(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// ends sends what no connection survives.
func (v *victim) ends(b []byte) error {
	c, err := dial(v.addr)
	if err != nil {
		return err
	}
	defer c.conn.Close()
	if err := c.conn.Send(b); err != nil && !gone(err) {
		return err
	}
	_ = c.conn.CloseWrite()
	return expectEnd(c)
}

func garbage(v *victim) {
	v.crowd(4, func(rnd *rand.Rand) error {
		b := make([]byte, 1+rnd.IntN(100_000))
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
		if rnd.IntN(2) == 0 { // garbage in a good record
			b = wire.Mark(b[:min(len(b), 60_000)])
		}
		return v.ends(b)
	})
}

func promises(v *victim) {
	empty := bytes.Repeat([]byte{0, 0, 0, 0}, 1<<18)
	v.crowd(4, func(rnd *rand.Rand) error {
		mark := binary.BigEndian.AppendUint32(nil, rnd.Uint32()|1<<30)
		switch rnd.IntN(3) {
		case 0:
			return v.ends(append(mark, make([]byte, 1<<20)...))
		case 1:
			return v.ends(bytes.Repeat(wire.Fragment(make([]byte, 1+rnd.IntN(30_000)), false), 200))
		}
		return v.ends(empty)
	})
}

// replies are dropped; the call behind them is answered.
func replies(v *victim) {
	v.crowd(4, func(rnd *rand.Rand) error {
		c, err := dial(v.addr)
		if err != nil {
			return err
		}
		defer c.conn.Close()
		_ = c.conn.SetLinger(0)
		reply := v.getattrRecord(1)
		binary.BigEndian.PutUint32(reply[4:], 1+rnd.Uint32N(1<<31))
		b := append(bytes.Repeat(wire.Mark(reply), 1+rnd.IntN(200)), wire.Mark(v.getattrRecord(2))...)
		if err := c.conn.Send(b); err != nil {
			return err
		}
		return expectReply(c, 2)
	})
}

// duplicates: each copy of a call gets a reply of its own, and all are right.
func duplicates(v *victim) {
	v.crowd(2, func(rnd *rand.Rand) error {
		c, err := dial(v.addr)
		if err != nil {
			return err
		}
		defer c.conn.Close()
		n := 1 + rnd.IntN(12)
		go func() { _ = c.conn.Send(bytes.Repeat(wire.Mark(v.readRecord(1)), n)) }() // shows in the replies
		for range n {
			if err := v.takeReply(c, &v.src); err != nil {
				return err
			}
		}
		return nil
	})
}

// mounts names another directory each time.
func mounts(v *victim) {
	v.crowd(4, func(rnd *rand.Rand) error {
		c, err := dial(v.addr)
		if err != nil {
			return err
		}
		defer c.conn.Close()
		_ = c.conn.SetLinger(0)
		for range 50 {
			path := v.path("data", strings.Repeat("x", rnd.IntN(900)))
			if _, err := c.call(wire.Mount, 3, 1+2*rnd.Uint32N(2), wire.Enc(nil).Str(path)); err != nil {
				return err
			}
			if _, err := c.mount(v.path("data")); err != nil {
				return err
			}
		}
		return nil
	})
}

// halfOpen: the server gives such peers up after a while.
func halfOpen(v *victim) {
	const n = 300
	rec := wire.Mark(v.readRecord(1))
	var all []*client
	for range n {
		c := get(dial(v.addr))(v.trial)
		v.must(c.conn.Send(rec[:1+v.trial.rnd.IntN(len(rec)-1)]))
		all = append(all, c)
	}
	time.Sleep(v.long)
	for _, c := range all {
		v.tried.Add(1)
		v.must(expectEnd(c))
		c.conn.Close()
	}
	if st := get(v.status())(v.trial); st.RPC.Stalled == 0 {
		v.errorf("no connection is counted as stalled")
	}
}

// stalledReceivers: neither do they keep anything for ever.
func stalledReceivers(v *victim) {
	const n, calls = 300, 16
	rec := bytes.Repeat(wire.Mark(v.readRecord(1)), calls)
	for range n {
		c := get(dial(v.addr))(v.trial)
		defer c.conn.Close()
		v.must(c.conn.SetReadBuffer(4096))
		v.must(c.conn.Send(rec))
		v.tried.Add(calls)
	}
	time.Sleep(v.long)
	if !eventually(8*peerTimeout, func() bool {
		st, err := v.status()
		return err == nil && st.RPC.Connections < 20 && st.NFS.PipesInUse < 20
	}) {
		st, _ := v.status()
		v.errorf("%d connections and %d pipes are left", st.RPC.Connections, st.NFS.PipesInUse)
	}
}

// greedy opens connections without end; another client finds room all the same.
func greedy(v *victim) {
	const n = 4000
	for range n {
		c := get(dialFrom("127.0.0.9", v.addr))(v.trial)
		defer c.conn.Close()
		v.tried.Add(1)
	}
	var st statusJSON
	eventually(settleLimit, func() bool { // some may be in the backlog yet
		st = get(v.status())(v.trial)
		return st.RPC.Refused >= n-12000/4
	})
	if st.RPC.Connections > 12000/4+10 || st.RPC.Refused < n-12000/4 {
		v.errorf("one client has %d connections, %d refused", st.RPC.Connections, st.RPC.Refused)
	}
	v.must(pingOnce(v.addr))
}

func idle(v *victim) {
	const n = 10_000
	before := v.gauge()
	for i := range n {
		c, err := dialFrom(fmt.Sprintf("127.0.%d.1", 1+i/500), v.addr)
		if errors.Is(err, syscall.EMFILE) {
			v.skipf("this process may not have %d descriptors (ulimit -n)", n)
		}
		v.must(err)
		defer c.conn.Close()
		if i%100 == 0 {
			_, err := c.call(wire.NFS, 3, wire.Null, nil)
			v.must(err)
		}
		v.tried.Add(1)
	}
	time.Sleep(v.long)
	after := v.gauge()
	if !eventually(settleLimit, func() bool { st, err := v.status(); return err == nil && st.RPC.Connections >= n }) {
		v.errorf("the server does not have all %d connections", n)
	}
	v.notef("%d bytes of memory for each", max(0, after.anon-before.anon)<<10/n)
}

func manyReaders(t *trial) {
	const n = 1000
	dir := t.tmpfs("data")
	s := t.serve(export(dir, "fsid=1"), "--max-connections", "3000", "--max-connections-per-client", "3000")
	src := t.makeSource(s, dir, "f", 32<<20)
	before := s.gauge()
	r := t.startReaders(s, src, n, false)
	time.Sleep(t.long)
	if !eventually(readyLimit, func() bool { return r.reads.Load() >= 3*n }) {
		t.errorf("%d readers made %d reads", n, r.reads.Load())
	}
	r.stop()
	t.tried.Add(r.reads.Load())
	s.checkMemory(n)
	s.checkSettled(before)
}
