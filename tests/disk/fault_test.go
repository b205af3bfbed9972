package disk

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"sluice/tests/disk/daemon"
	"sluice/tests/pattern"
	"sluice/tests/protocol/wire"
	"sluice/tests/seekdisk"
)

const (
	// answerLimit is how long a call may take that has nothing to do with what
	// hangs. It says "at once", on a machine that does other things.
	answerLimit = 5 * time.Second
	// stopGrace is how long things may take to go away.
	stopGrace = 10 * time.Second
)

// A bad place on the disk fails the READs that ask for it, and no others, though
// it is read ahead with what is around it.
func TestBadBlock(t *testing.T) {
	const size, rsize, bad = 32 << 20, 128 << 10, 16<<20 + 5*4096
	eachBackend(t, func(t *testing.T, b backend) {
		d := modelled(t)
		s := startServer(t, b, []string{d.Dir()})
		f := makeFile(t, d.Dir(), "bad", 2, size)
		f.lookUp(dial(t, s))
		must(t, d.FailFile(f.path(), bad, 4096))
		failed := 0
		check := func(p part, r result) error {
			switch {
			case p.off+rsize <= bad || p.off > bad:
				return p.check(r)
			case r.status == errIO:
				failed++
				return nil
			case r.status == wire.OK && p.off+int64(len(r.data)) <= bad && len(r.data) > 0:
				failed++ // as much as there was
				return pattern.Check(r.data, p.seed, p.off)
			}
			return fmt.Errorf("READ of the bad place: status %d, %d bytes", r.status, len(r.data))
		}
		parts := split(f, 0, size, rsize)
		readers{conns: 1, depth: 8, check: check}.read(t, s, parts)
		f.drop(t)
		readers{conns: 4, depth: 8, check: check}.read(t, s, shuffled(parts, 16))
		if failed != 2 {
			t.Errorf("%d READs failed, want the bad place's twice", failed)
		}
		if r := dial(t, s).read(part{fh: f.fh, off: bad, n: 4096}); r.status != errIO {
			t.Errorf("READ of the bad place alone: status %d, want NFS3ERR_IO", r.status)
		}
		must(t, d.Heal())
		readers{conns: 2, depth: 8}.read(t, s, split(f, 0, size, rsize))
	})
}

// hung is the situation of a disk that does not answer while READs wait for it.
type hung struct {
	s          *server
	d          *seekdisk.Disk
	cold, warm file       // on the disk that hangs; warm is in the page cache
	other      file       // on another
	reader     *readerSet // waits
}

// readerSet is READs that have been sent and not been answered.
type readerSet struct {
	conn  *wire.Conn
	parts []part
}

func hang(t *testing.T, b backend) hung {
	t.Helper()
	h := hung{d: modelled(t)}
	own := makeDir(t, scratch)
	h.s = startServer(t, b, []string{h.d.Dir(), own})
	c := dial(t, h.s)
	h.cold = makeFile(t, h.d.Dir(), "cold", 1, 32<<20)
	h.warm = makeFile(t, h.d.Dir(), "warm", 2, 4<<20)
	h.other = makeFile(t, own, "other", 3, 16<<20)
	for _, f := range []*file{&h.cold, &h.warm, &h.other} {
		f.lookUp(c)
	}
	readers{conns: 1, depth: 8}.read(t, h.s, split(h.warm, 0, h.warm.size, 128<<10))
	must(t, h.d.Stall(0))
	// The clean-up of the server comes before that of the disk.
	t.Cleanup(func() { must(t, h.d.Release()) })
	conn, err := wire.Dial(h.s.Addr)
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	h.reader = &readerSet{conn, split(h.cold, 0, 8<<20, 128<<10)}
	for i, p := range h.reader.parts {
		must(t, conn.Send(p.record(uint32(i))))
	}
	eventually(t, answerLimit, func() error {
		if st := stats(t, h.d); st.Waiting == 0 {
			return fmt.Errorf("nothing waits for the disk: %+v", st)
		}
		return nil
	})
	return h
}

// within fails the test if f takes longer than answerLimit.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	begin := time.Now()
	f()
	if d := time.Since(begin); d > answerLimit {
		t.Errorf("%s took %v beside a disk that hangs", what, d)
	}
}

// While a disk hangs, what does not need it goes on: data in the page cache, even
// of that disk, other disks, attributes, new clients. When it answers again, so do
// the READs that waited.
func TestHungDisk(t *testing.T) {
	eachBackend(t, func(t *testing.T, b backend) {
		h := hang(t, b)
		c := dial(t, h.s)
		within(t, "GETATTR", func() {
			for _, f := range []file{h.cold, h.warm, h.other} {
				if status, a := c.getattr(f.fh); status != wire.OK || a.Size != uint64(f.size) {
					t.Errorf("%s: status %d, size %d", f.name, status, a.Size)
				}
			}
		})
		rd := readers{conns: 4, depth: 8}
		within(t, "what is in the page cache", func() { rd.read(t, h.s, split(h.warm, 0, h.warm.size, 128<<10)) })
		within(t, "another disk", func() { rd.read(t, h.s, split(h.other, 0, h.other.size, 128<<10)) })
		within(t, "mounting", func() { dial(t, h.s).find(h.d.Dir()) })
		within(t, "status", func() { h.s.io(h.d.Name()) })
		must(t, h.d.Release())
		got := make(map[uint32]bool)
		for range h.reader.parts {
			xid, r, err := receive(h.reader.conn)
			must(t, err)
			if r.status != wire.ErrJukebox { // it may have been told to come back
				must(t, h.reader.parts[xid].check(r))
			}
			got[xid] = true
		}
		if len(got) != len(h.reader.parts) {
			t.Errorf("%d of %d READs were answered", len(got), len(h.reader.parts))
		}
		// And the disk is as good as before.
		readers{conns: 2, depth: 8}.read(t, h.s, split(h.cold, 0, h.cold.size, 128<<10))
	})
}

// A hung disk gives its READs back after a while, with an answer that has clients
// try again.
func TestHungDiskGivesUp(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the server to lose patience")
	}
	eachBackend(t, func(t *testing.T, b backend) {
		h := hang(t, b)
		for range h.reader.parts {
			xid, r, err := receive(h.reader.conn)
			must(t, err)
			if r.status != wire.ErrJukebox {
				t.Fatalf("READ %d of a disk that hangs: status %d, want NFS3ERR_JUKEBOX", xid, r.status)
			}
		}
		must(t, h.d.Release())
		eventually(t, stopGrace, func() error {
			p := h.reader.parts[0]
			return p.check(dial(t, h.s).read(p))
		})
	})
}

// SIGTERM ends the server in bounded time though READs wait for a disk that never
// answers.
func TestDrainWithHungDisk(t *testing.T) {
	eachBackend(t, func(t *testing.T, b backend) {
		h := hang(t, b)
		must(t, syscall.Kill(h.s.PID(), syscall.SIGTERM))
		select {
		case <-h.s.Done():
		case <-time.After(daemon.StopLimit):
			t.Errorf("the server still runs %v after SIGTERM", daemon.StopLimit)
			h.s.Dump()
		}
	})
}
