package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"sluice/tests/protocol/wire"
)

// ENFILE takes the same way through the server as EMFILE, and is not tried: the
// limit is the whole machine's.
var scarceFaults = []fault{
	{"scarce", "EMFILE: more clients and files than descriptors", fewDescriptors},
	{"scarce", "no room for pipes (fs.pipe-user-pages-soft, without privileges)", fewPipes},
}

// fewDescriptors: whoever is connected is served on; who is not is turned away
// and not left waiting; when there is room again, everybody gets in.
func fewDescriptors(t *trial) {
	const limit = 96
	dir := t.tmpfs("data")
	for i := range 200 {
		t.must(os.WriteFile(fmt.Sprintf("%s/%d", dir, i), []byte("x"), 0o644))
	}
	s := t.newServer(export(dir, "fsid=1"), "--max-connections", "5000", "--max-connections-per-client", "5000", "--threads", "2")
	s.prefix = []string{"prlimit", fmt.Sprintf("--nofile=%d:%d", limit, limit), "--"}
	t.must(s.start("127.0.0.1:0"))
	src := t.makeSource(s, dir, "f", 8<<20)
	root := get(t.dial(s).mount(dir))(t)
	r := t.startReaders(s, src, 2, true) // their file may have to be opened anew
	var away atomic.Int64
	for ctx := t.until(); ctx.Err() == nil; {
		var all sync.WaitGroup
		for i := range 2 * limit {
			c := get(dial(s.addr))(t)
			t.tried.Add(1)
			all.Go(func() {
				defer c.conn.Close()
				_, err := c.lookup(root, fmt.Sprint(i))
				switch {
				case err == nil, errors.Is(err, status(wire.ErrJukebox)):
					time.Sleep(100 * time.Millisecond) // keep the room for a moment
				case gone(err):
					away.Add(1)
				default:
					t.errorf("a client more than there is room for: %w", err)
				}
			})
		}
		all.Wait()
	}
	if away.Load() == 0 {
		t.errorf("all fit into %d descriptors: it was not tried", limit)
	}
	t.notef("%d turned away", away.Load())
	r.checkPace(paceLimit)
	if !eventually(settleLimit, func() bool { return pingOnce(s.addr) == nil }) {
		t.errorf("nobody gets in although there is room again")
	}
}

// fewPipes: a server without privileges, whose user may have so many pages in
// pipes and no more, copies what it cannot splice.
func fewPipes(t *trial) {
	dir := t.tmpfs("data")
	s := t.newServer(export(dir, "fsid=1"), "--send-path", "splice", "--max-connections", "2000", "--max-connections-per-client", "2000")
	s.prefix = []string{"setpriv", "--reuid", "23456", "--regid", "23456", "--clear-groups", "--"}
	t.must(os.Chown(s.state, 23456, 23456))
	t.must(s.start("127.0.0.1:0"))
	src := t.makeSource(s, dir, "f", 8<<20)
	call := wire.NewCall(wire.NFS, 3, wire.Read, readArgs(src.fh, 0, 1<<20))
	rec := bytes.Repeat(wire.Mark(call.Record()), 4)
	var stuck []*client
	for range 400 { // each holds a pipe, or what took its place
		c := get(dial(s.addr))(t)
		t.must(c.conn.SetReadBuffer(4096))
		t.must(c.conn.Send(rec))
		stuck = append(stuck, c)
		t.tried.Add(1)
	}
	r := t.startReaders(s, src, 2, false)
	time.Sleep(t.long)
	r.checkPace(paceLimit)
	st := get(s.status())(t)
	t.notef("%d pipes in use", st.NFS.PipesInUse)
	s.checkMemory(400)
	for _, c := range stuck {
		c.conn.Close()
	}
	if !eventually(settleLimit, func() bool { st, err := s.status(); return err == nil && st.NFS.PipesInUse == 0 }) {
		t.errorf("pipes are left in use")
	}
}
