package protocol

import (
	"bytes"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/tests/protocol/wire"
)

// Row "16 connections of one client (nconnect)": all served fairly. Each keeps
// as many reads under way as a client would; within one period none gets less
// than a third of the mean.
func TestFairness(t *testing.T) {
	s := sharedServer(t)
	setup := dial(t, s)
	fh := setup.find(setup.mount(treePath("pub")), "big")
	call := wire.Mark(wire.NewCall(wire.NFS, 3, wire.Read, readArgs(fh, 0, 1<<20)).Record())
	const conns, depth = 16, 8
	var got [conns]atomic.Int64
	var clients sync.WaitGroup
	errs := make(chan error, conns)
	for i := range conns {
		c := dial(t, s)
		must(t, c.conn.Send(bytes.Repeat(call, depth)))
		clients.Go(func() { errs <- keepReading(c, call, &got[i]) })
		t.Cleanup(func() { c.conn.Close() })
	}
	time.Sleep(300 * time.Millisecond) // warm
	var start, served [conns]int64
	for i := range got {
		start[i] = got[i].Load()
	}
	time.Sleep(1500 * time.Millisecond)
	total := int64(0)
	for i := range got {
		served[i] = got[i].Load() - start[i]
		total += served[i]
	}
	mean := total / conns
	if least := slices.Min(served[:]); least < mean/3 {
		t.Errorf("the least served connection got %d bytes, the mean is %d: %v", least, mean, served)
	}
	for i := range got {
		got[i].Store(-1) // tells the client to end
	}
	clients.Wait()
	for range conns {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// keepReading takes replies and sends a new call for each, until got is
// negative. It counts bytes and does not look at them.
func keepReading(c *client, call []byte, got *atomic.Int64) error {
	buf := make([]byte, 256<<10)
	const reply = 4 + 24 + 4 + 88 + 12 + 1<<20
	pending := 0
	for got.Load() >= 0 {
		c.conn.SetReadDeadline(time.Now().Add(wire.Timeout))
		n, err := c.conn.Read(buf)
		if err != nil {
			return err
		}
		if v := got.Load(); v < 0 || !got.CompareAndSwap(v, v+int64(n)) {
			return nil
		}
		for pending += n; pending >= reply; pending -= reply {
			if err := c.conn.Send(call); err != nil {
				return err
			}
		}
	}
	return nil
}

// A client that asks for a gigabyte and takes nothing costs the server a bounded
// amount of memory, and nobody else any time. The same for many such clients.
func TestClientThatNeverReceives(t *testing.T) {
	must(t, makeTree())
	for path, conns := range map[string]int{"auto": 256, "uring": 256, "copy": 20} {
		t.Run(path, func(t *testing.T) {
			s := startServer(t, treePath("pub")+" *(ro,insecure,no_root_squash,no_subtree_check)\n", "--send-path", path,
				"--max-connections", "400", "--max-connections-per-client", "400")
			c := dial(t, s)
			root := c.mount(treePath("pub"))
			fh := c.find(root, "big")
			if r := c.read(fh, 0, 1<<20); r.status != wire.OK {
				t.Fatalf("READ: status %d", r.status)
			}
			before := s.anonKiB(t)
			const calls = 200
			rec := bytes.Repeat(wire.Mark(wire.NewCall(wire.NFS, 3, wire.Read, readArgs(fh, 0, 1<<20)).Record()), calls)
			for range conns {
				stuck := dial(t, s)
				must(t, stuck.conn.SetReadBuffer(4096))
				go func() { _ = stuck.conn.Send(rec) }() // it may never end; Close ends it
			}
			slowest := time.Duration(0)
			for end := time.Now().Add(time.Second); time.Now().Before(end); {
				begin := time.Now()
				c.attrOf(root)
				if r := c.read(fh, 0, 1<<20); r.status != wire.OK || len(r.data) != 1<<20 {
					t.Fatalf("READ beside them: status %d, %d bytes", r.status, len(r.data))
				}
				slowest = max(slowest, time.Since(begin))
			}
			if slowest > time.Second {
				t.Errorf("a call beside them took %v", slowest)
			}
			// Gigabytes have been asked for. Copied data under way is bounded by 64 MiB
			// in all, what else a connection may make the server hold by 512 KiB.
			limit := 64<<10 + conns*512
			if raceEnabled {
				limit *= 4 // the detector's shadow memory
			}
			if grown := s.anonKiB(t) - before; grown > limit {
				t.Errorf("the server has grown by %d KiB for %d connections, at most %d expected", grown, conns, limit)
			}
			// One pipe for each, and others still get theirs.
			if st := value(s.status())(t); st.NFS.PipesInUse > conns+2 || path != "copy" && st.NFS.Send.NoPipe > 0 {
				t.Errorf("%d pipes in use for %d connections; %+v", st.NFS.PipesInUse, conns, st.NFS.Send)
			}
		})
	}
}

// Clients that go away in the middle of anything leave nothing behind: neither
// descriptors nor pipes nor connections.
func TestDisconnects(t *testing.T) {
	must(t, makeTree())
	s := startServer(t, treePath("pub")+" *(ro,insecure,no_root_squash,no_subtree_check)\n")
	c := dial(t, s)
	fh := c.find(c.mount(treePath("pub")), "big")
	rec := wire.Mark(wire.NewCall(wire.NFS, 3, wire.Read, readArgs(fh, 1, 1<<20)).Record())
	round := func() {
		for i := range 40 {
			gone := value(wire.Dial(s.addr))(t)
			_ = gone.Send(bytes.Repeat(rec, 1+i%5))
			_, _ = io.CopyN(io.Discard, gone, int64(i)*25_000)
			must(t, gone.SetLinger(i%2)) // half of them reset
			gone.Close()
			half := value(wire.Dial(s.addr))(t)
			_ = half.Send(rec[:i%len(rec)])
			half.Close()
		}
	}
	settled := func() (descriptors int) {
		must(t, s.awaitIdle(1))
		return s.descriptors(t)
	}
	round()
	before := settled()
	for range 4 {
		round()
	}
	// Pipes that are empty stay, up to a bound; a pipe has two descriptors.
	if after := settled(); after > before+32 {
		t.Errorf("%d descriptors, %d before as many disconnects again", after, before)
	}
	if r := c.read(fh, 0, 1<<20); !bytes.Equal(r.data, pattern(0, 1<<20)) {
		t.Errorf("READ after all that: status %d, %d bytes, or wrong ones", r.status, len(r.data))
	}
}

// A reply whose client takes it a little at a time arrives whole, whatever the
// send path parks of it; what is pipelined behind it too.
func TestSlowReceiver(t *testing.T) {
	must(t, makeTree())
	for _, path := range []string{"splice", "uring", "copy"} {
		t.Run(path, func(t *testing.T) {
			s := startServer(t, treePath("pub")+" *(ro,insecure,no_root_squash,no_subtree_check)\n", "--send-path", path)
			c := dial(t, s)
			fh := c.find(c.mount(treePath("pub")), "big")
			must(t, c.conn.SetReadBuffer(128<<10))
			const calls = 12
			offset := func(i uint32) uint64 { return uint64(i) * 170_003 }
			for i := range uint32(calls) {
				c.sendRead(i, fh, offset(i), 1<<20)
			}
			time.Sleep(200 * time.Millisecond)
			seen := make(map[uint32]bool)
			for range calls {
				time.Sleep(5 * time.Millisecond)
				r := value(wire.ParseReply(value(c.conn.Receive())(t)))(t)
				res := decodeRead(t, &wire.Dec{B: r.Results})
				if !bytes.Equal(res.data, pattern(int(offset(r.XID)), len(res.data))) || len(res.data) == 0 {
					t.Fatalf("reply %d: %d bytes, or wrong ones", r.XID, len(res.data))
				}
				seen[r.XID] = true
			}
			if len(seen) != calls {
				t.Errorf("%d of %d calls answered", len(seen), calls)
			}
		})
	}
}
