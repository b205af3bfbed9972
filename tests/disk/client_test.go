package disk

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"sluice/tests/pattern"
	"sluice/tests/protocol/wire"
)

// errIO is NFS3ERR_IO (RFC 1813 section 2.6).
const errIO = 5

// client is a connection for one call at a time.
type client struct {
	t    testing.TB
	conn *wire.Conn
}

func dial(t testing.TB, s *server) *client {
	t.Helper()
	conn, err := wire.Dial(s.Addr)
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	return &client{t, conn}
}

func (c *client) call(prog, proc uint32, args []byte) *wire.Dec {
	c.t.Helper()
	r, err := c.conn.Call(wire.NewCall(prog, 3, proc, args))
	must(c.t, err)
	if r.Denied || r.Stat != wire.Success {
		c.t.Fatalf("program %d procedure %d: %+v", prog, proc, r)
	}
	return &wire.Dec{B: r.Results}
}

// find mounts a directory and looks names up from there.
func (c *client) find(dir string, names ...string) []byte {
	c.t.Helper()
	d := c.call(wire.Mount, 1, wire.Enc(nil).Str(dir))
	if st := d.U32(); st != 0 {
		c.t.Fatalf("MNT %s: status %d", dir, st)
	}
	fh := d.FH()
	for _, name := range names {
		d = c.call(wire.NFS, wire.Lookup, wire.Enc(nil).Opaque(fh).Str(name))
		if st := d.U32(); st != wire.OK {
			c.t.Fatalf("LOOKUP %s: status %d", name, st)
		}
		fh = d.FH()
	}
	return fh
}

// getattr returns a file's attributes.
func (c *client) getattr(fh []byte) (status uint32, a wire.Attr) {
	c.t.Helper()
	d := c.call(wire.NFS, wire.Getattr, wire.Enc(nil).Opaque(fh))
	if status = d.U32(); status == wire.OK {
		a = d.Attr()
	}
	return status, a
}

// part is what a READ asks for.
type part struct {
	fh   []byte
	off  int64
	n    int
	seed uint64 // of the content that is expected there
}

// result is what came back.
type result struct {
	status uint32
	data   []byte
	eof    bool
}

func (p part) record(xid uint32) []byte {
	call := wire.NewCall(wire.NFS, 3, wire.Read, wire.Enc(nil).Opaque(p.fh).U64(uint64(p.off)).U32(uint32(p.n)))
	call.XID = xid
	return wire.Mark(call.Record())
}

// receive returns the next result and whose it is.
func receive(conn *wire.Conn) (xid uint32, r result, err error) {
	rec, err := conn.Receive()
	if err != nil {
		return 0, r, err
	}
	reply, err := wire.ParseReply(rec)
	if err != nil || reply.Denied || reply.Stat != wire.Success {
		return 0, r, fmt.Errorf("READ: %+v, %w", reply, err)
	}
	d := &wire.Dec{B: reply.Results}
	r.status = d.U32()
	d.PostOp()
	if r.status == wire.OK {
		count := d.U32()
		r.eof = d.Bool()
		r.data = d.Opaque(8 << 20)
		if int(count) != len(r.data) {
			return 0, r, fmt.Errorf("READ: count %d with %d bytes", count, len(r.data))
		}
	}
	return reply.XID, r, d.End()
}

// read is one READ.
func (c *client) read(p part) result {
	c.t.Helper()
	must(c.t, c.conn.Send(p.record(1)))
	_, r, err := receive(c.conn)
	must(c.t, err)
	return r
}

// check says what is wrong with a result that should be the whole part.
func (p part) check(r result) error {
	if r.status != wire.OK || len(r.data) != p.n {
		return fmt.Errorf("READ of %d at %d: status %d, %d bytes", p.n, p.off, r.status, len(r.data))
	}
	return pattern.Check(r.data, p.seed, p.off)
}

// readers read parts over several connections with several calls outstanding on
// each. What arrives where is handed to check, one at a time.
type readers struct {
	conns, depth int
	check        func(part, result) error
}

func (rd readers) read(t *testing.T, s *server, parts []part) {
	t.Helper()
	if rd.check == nil {
		rd.check = part.check
	}
	queue := make(chan part, len(parts))
	for _, p := range parts {
		queue <- p
	}
	close(queue)
	var mu sync.Mutex
	check := func(p part, r result) error {
		mu.Lock()
		defer mu.Unlock()
		return rd.check(p, r)
	}
	errs := make(chan error, rd.conns)
	for range rd.conns {
		conn, err := wire.Dial(s.Addr)
		must(t, err)
		defer conn.Close()
		go func() { errs <- readOn(conn, rd.depth, queue, check) }()
	}
	for range rd.conns {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// readOn reads what it gets from the queue over one connection.
func readOn(conn *wire.Conn, depth int, queue <-chan part, check func(part, result) error) error {
	out := make(map[uint32]part)
	xid := uint32(0)
	for {
		for len(out) < depth {
			p, more := <-queue
			if !more {
				break
			}
			xid++
			out[xid] = p
			if err := conn.Send(p.record(xid)); err != nil {
				return err
			}
		}
		if len(out) == 0 {
			return nil
		}
		id, r, err := receive(conn)
		if err != nil {
			return fmt.Errorf("with %d calls outstanding: %w", len(out), err)
		}
		p, ok := out[id]
		if !ok {
			return fmt.Errorf("a reply to %d, which is not outstanding", id)
		}
		delete(out, id)
		if err := check(p, r); err != nil {
			return err
		}
	}
}

// split cuts n bytes at off into parts of rsize.
func split(f file, off, n int64, rsize int) (parts []part) {
	for end := off + n; off < end; off += int64(rsize) {
		parts = append(parts, part{f.fh, off, int(min(int64(rsize), end-off)), f.seed})
	}
	return parts
}

// shuffled reorders parts inside windows, always in the same way.
func shuffled(parts []part, window int) []part {
	rnd := rand.New(rand.NewPCG(1, uint64(window)))
	for at := 0; at < len(parts); at += window {
		w := parts[at:min(at+window, len(parts))]
		rnd.Shuffle(len(w), func(i, j int) { w[i], w[j] = w[j], w[i] })
	}
	return parts
}

// interleaved takes a part of each list in turn.
func interleaved(lists ...[]part) (all []part) {
	for i := 0; ; i++ {
		before := len(all)
		for _, l := range lists {
			if i < len(l) {
				all = append(all, l[i])
			}
		}
		if len(all) == before {
			return all
		}
	}
}
