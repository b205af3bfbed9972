package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"sluice/tests/pattern"
	"sluice/tests/protocol/wire"
)

// source is a file that readers know every byte of.
type source struct {
	fh   []byte
	seed uint64
	size int64
}

// makeSource makes a file in an exported directory and finds its handle.
func (t *trial) makeSource(s *server, dir, name string, size int64) source {
	seed := t.rnd.Uint64()
	t.must(pattern.WriteFile(dir+"/"+name, seed, size))
	return source{fh: get(t.dial(s).find(dir, name))(t), seed: seed, size: size}
}

const (
	readDepth = 4 // calls that a reader has under way
	readMost  = 1 << 20
	// giveUp is how long a reader waits for a server to come back.
	giveUp = 30 * time.Second
)

// reader reads at random places, several calls at a time, and checks that each is
// answered once, with the right bytes. Where its connection may break it does
// what the Linux client does: it connects again and sends the calls that have no
// reply yet once more, under their old numbers; and it repeats what gets
// NFS3ERR_JUKEBOX.
type reader struct {
	t        *trial
	addr     func() string
	src      source
	mayBreak bool
	rnd      *rand.Rand

	client  *client
	xid     uint32
	pending map[uint32]span
}

type span struct {
	off   uint64
	count uint32
}

// readers is a group of readers and what they have done.
type readers struct {
	t       *trial
	cancel  context.CancelFunc
	running sync.WaitGroup
	reads   atomic.Int64
	// worst is the longest time between two replies of a reader.
	worst      atomic.Int64
	reconnects atomic.Int64
}

// startReaders has n readers of a file at work until stop.
func (t *trial) startReaders(s *server, src source, n int, mayBreak bool) *readers {
	addr := s.addr
	ctx, cancel := context.WithCancel(context.Background())
	g := &readers{t: t, cancel: cancel}
	for range n {
		r := &reader{t: t, addr: func() string { return addr }, src: src, mayBreak: mayBreak,
			rnd: rand.New(rand.NewPCG(t.rnd.Uint64(), 0)), pending: make(map[uint32]span)}
		g.running.Go(func() {
			if err := r.run(ctx, g); err != nil {
				t.errorf("reader: %w", err)
			}
		})
	}
	t.after(func() { g.cancel(); g.running.Wait() })
	return g
}

// stop ends the readers; they must have read something.
func (g *readers) stop() {
	g.cancel()
	g.running.Wait()
	if g.reads.Load() == 0 {
		g.t.errorf("the readers have not read anything")
	}
}

// checkPace ends the readers, none of which may have waited longer than limit.
func (g *readers) checkPace(limit time.Duration) {
	g.stop()
	if raceEnabled {
		limit *= 4
	}
	if worst := time.Duration(g.worst.Load()); worst > limit {
		g.t.errorf("a reader waited %v for a reply, at most %v expected", worst, limit)
	}
	g.t.notef("longest wait of a reader %v", time.Duration(g.worst.Load()).Round(time.Millisecond))
}

func (r *reader) run(ctx context.Context, g *readers) error {
	defer func() {
		if r.client != nil {
			r.client.conn.Close()
		}
	}()
	last := time.Now()
	for ctx.Err() == nil {
		err := r.step()
		switch {
		case err == nil:
			g.reads.Add(1)
			now := time.Now()
			for wait := int64(now.Sub(last)); ; {
				worst := g.worst.Load()
				if wait <= worst || g.worst.CompareAndSwap(worst, wait) {
					break
				}
			}
			last = now
		case !r.mayBreak || errors.As(err, new(wrong)):
			return err
		case time.Since(last) > giveUp:
			return fmt.Errorf("no reply for %v: %w", giveUp, err)
		default:
			g.reconnects.Add(1)
			r.client.drop()
			r.client = nil
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}

func (c *client) drop() {
	if c != nil {
		c.conn.Close()
	}
}

// wrong is an error that no loss of a connection explains.
type wrong struct{ error }

func (w wrong) Unwrap() error { return w.error }

// step takes one reply, after sending what there is room for.
func (r *reader) step() error {
	if r.client == nil {
		c, err := dial(r.addr())
		if err != nil {
			return err
		}
		r.client = c
		for xid, s := range r.pending {
			if err := r.send(xid, s); err != nil {
				return err
			}
		}
	}
	for len(r.pending) < readDepth {
		r.xid++
		s := span{uint64(r.rnd.Int64N(r.src.size)), 1 + uint32(r.rnd.Uint64N(readMost))}
		if r.rnd.Uint32()%2 == 0 {
			s.count = 1 + s.count%(32<<10) // small ones take another way
		}
		r.pending[r.xid] = s
		if err := r.send(r.xid, s); err != nil {
			return err
		}
	}
	rec, err := r.client.conn.Receive()
	if err != nil {
		return err
	}
	return r.check(rec)
}

func (r *reader) send(xid uint32, s span) error {
	call := wire.NewCall(wire.NFS, 3, wire.Read, readArgs(r.src.fh, s.off, s.count))
	call.XID = xid
	return r.client.conn.Send(wire.Mark(call.Record()))
}

// check checks a reply to one of the calls under way.
func (r *reader) check(rec []byte) error {
	reply, err := wire.ParseReply(rec)
	if err != nil {
		return wrong{err}
	}
	s, ok := r.pending[reply.XID]
	if !ok {
		return wrong{fmt.Errorf("a reply to %d, which is not under way", reply.XID)}
	}
	delete(r.pending, reply.XID)
	if reply.Denied || reply.Stat != wire.Success {
		return wrong{fmt.Errorf("reply %+v", reply)}
	}
	got, err := decodeRead(&wire.Dec{B: reply.Results})
	if r.mayBreak && errors.Is(err, status(wire.ErrJukebox)) { // once more, later
		time.Sleep(time.Millisecond)
		r.pending[reply.XID] = s
		return r.send(reply.XID, s)
	}
	if err != nil {
		return wrong{fmt.Errorf("READ at %d: %w", s.off, err)}
	}
	if err := r.src.checkAt(got, s); err != nil {
		return wrong{err}
	}
	r.t.checked.Add(int64(len(got.data)))
	return nil
}

// checkAt compares a reply with the file. It may be short, but not empty.
func (src *source) checkAt(got readReply, s span) error {
	most := min(int64(s.count), src.size-int64(s.off))
	n := int64(len(got.data))
	if n == 0 || n > most || got.eof != (int64(s.off)+n == src.size) {
		return fmt.Errorf("READ of %d bytes at %d of %d: %d bytes, end of file %v", s.count, s.off, src.size, n, got.eof)
	}
	return pattern.Check(got.data, src.seed, int64(s.off))
}
