package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"sluice/tests/protocol/wire"
)

var restartFaults = []fault{
	{"restart", "SIGKILL and start, under load", killLoop},
	{"restart", "SIGTERM in the middle of replies, and start", drainLoop},
	{"restart", "SIGKILL while clients have yet to take replies", killInReply},
	{"restart", "SIGUSR2: a new process takes over, under load", handOverLoop},
	{"restart", "SIGUSR2 while clients connect without pause", handOverConnects},
	{"restart", "SIGUSR2 to a program that does not start", handOverFails},
	{"restart", "start with 1,000 exports", manyExports},
}

const restartReaders = 3

// killLoop: every READ that was under way is answered by the next server, with
// the handle from before.
func killLoop(t *trial) {
	dir := t.tmpfs("data")
	s := t.serve(export(dir, "fsid=1"))
	r := t.startReaders(s, t.makeSource(s, dir, "f", 64<<20), restartReaders, true)
	for ctx := t.until(); ctx.Err() == nil || t.tried.Load() < 3; t.tried.Add(1) {
		time.Sleep(time.Duration(t.rnd.IntN(300)) * time.Millisecond)
		s.restart()
	}
	r.stop()
	t.notef("%d reconnects", r.reconnects.Load())
}

func drainLoop(t *trial) {
	dir := t.tmpfs("data")
	s := t.serve(export(dir, "fsid=1"))
	r := t.startReaders(s, t.makeSource(s, dir, "f", 64<<20), restartReaders, true)
	for ctx := t.until(); ctx.Err() == nil || t.tried.Load() < 3; t.tried.Add(1) {
		time.Sleep(time.Duration(t.rnd.IntN(300)) * time.Millisecond)
		if err := s.proc.stop(stopLimit); err != nil {
			t.fatalf("SIGTERM: %w", err)
		}
		t.must(s.start(s.addr))
	}
	r.stop()
	t.notef("%d reconnects", r.reconnects.Load())
}

// killInReply: what has arrived of replies when the server dies is a beginning of
// what would have arrived, without a wrong byte.
func killInReply(t *trial) {
	dir := t.tmpfs("data")
	s := t.serve(export(dir, "fsid=1"))
	src := t.makeSource(s, dir, "f", 16<<20)
	for ctx := t.until(); ctx.Err() == nil || t.tried.Load() < 3; t.tried.Add(1) {
		c := get(dial(s.addr))(t)
		rec := wire.Mark(wire.NewCall(wire.NFS, 3, wire.Read, readArgs(src.fh, 0, 1<<20)).Record())
		t.must(c.conn.Send(bytes.Repeat(rec, 16)))
		for range t.rnd.IntN(4) {
			t.must(t.takeReply(c, &src))
		}
		s.restart()
		var err error
		for err == nil { // the kernel still has some
			err = t.takeReply(c, &src)
		}
		if errors.As(err, new(wrong)) {
			t.errorf("after the end of the server: %w", err)
		}
		c.conn.Close()
	}
}

// takeReply receives the reply to a READ of 1 MiB at the beginning.
func (t *trial) takeReply(c *client, src *source) error {
	rec, err := c.conn.Receive()
	if err != nil {
		return err
	}
	r := reader{t: t, src: *src, pending: map[uint32]span{1: {0, 1 << 20}}}
	return r.check(rec)
}

func handOverLoop(t *trial) {
	dir := t.tmpfs("data")
	s := t.serve(export(dir, "fsid=1"))
	r := t.startReaders(s, t.makeSource(s, dir, "f", 64<<20), restartReaders, true)
	for ctx := t.until(); ctx.Err() == nil || t.tried.Load() < 3; t.tried.Add(1) {
		time.Sleep(time.Duration(t.rnd.IntN(200)) * time.Millisecond)
		s.handOver()
	}
	r.stop()
	t.notef("%d reconnects", r.reconnects.Load())
}

// handOver returns when the old process has gone.
func (s *server) handOver() {
	old := int(s.pid.Load())
	ready := len(readyLine.FindAllString(s.log.String(), -1))
	s.signal(syscall.SIGUSR2)
	gone := eventually(readyLimit, func() bool { return s.gone(old) })
	all := readyLine.FindAllStringSubmatch(s.log.String(), -1)
	if !gone || len(all) != ready+1 {
		s.t.fatalf("SIGUSR2: the old process has gone: %v; %d new ones are ready", gone, len(all)-ready)
	}
	s.pid.Store(int64(atoi(all[len(all)-1][2])))
}

// handOverConnects: no connection is refused, and each is answered or ended in
// order, never reset.
func handOverConnects(t *trial) {
	dir := t.tmpfs("data")
	s := t.serve(export(dir, "fsid=1"))
	var stop atomic.Bool
	var ended atomic.Int64
	var connecting sync.WaitGroup
	for range 4 {
		connecting.Go(func() {
			for !stop.Load() {
				t.tried.Add(1)
				switch err := pingOnce(s.addr); {
				case errors.Is(err, io.EOF):
					ended.Add(1) // it was taken by the process that ended then
				case err != nil:
					t.errorf("while the sockets change hands: %w", err)
				}
			}
		})
	}
	hands := 0
	for ctx := t.until(); ctx.Err() == nil || hands < 3; hands++ {
		time.Sleep(50 * time.Millisecond)
		s.handOver()
	}
	stop.Store(true)
	connecting.Wait()
	t.notef("%d hand-overs, %d connections ended before their first reply", hands, ended.Load())
}

// pingOnce connects and makes one call.
func pingOnce(addr string) error {
	c, err := dial(addr)
	if err != nil {
		return err
	}
	defer c.conn.Close()
	_ = c.conn.SetLinger(0) // ports are not unlimited
	_, err = c.call(wire.NFS, 3, wire.Null, nil)
	return err
}

// handOverFails: where the new process does not come up, the old one goes on.
func handOverFails(t *trial) {
	dir := t.tmpfs("data")
	s := t.serve(export(dir, "fsid=1"))
	r := t.startReaders(s, t.makeSource(s, dir, "f", 16<<20), 1, false)
	file := s.args[1]
	good := get(os.ReadFile(file))(t)
	for range 2 {
		t.tried.Add(1)
		before := strings.Count(s.log.String(), "not handed over")
		t.must(os.WriteFile(file, []byte("/x *(nonsense)\n"), 0o644))
		s.signal(syscall.SIGUSR2)
		if !eventually(readyLimit, func() bool { return strings.Count(s.log.String(), "not handed over") > before }) {
			t.fatalf("the server does not say that it goes on")
		}
		t.must(os.WriteFile(file, good, 0o644))
	}
	t.must(pingOnce(s.addr))
	r.stop()
}

// startLimit is for a machine that has time.
const startLimit = 200 * time.Millisecond

// manyExports measures from exec to the first answered call. On a busy machine
// the best of a few starts tells what the server needs.
func manyExports(t *trial) {
	dir := t.tmpfs("data")
	var lines strings.Builder
	for i := range 1000 {
		sub := fmt.Sprintf("%s/%d", dir, i)
		t.must(os.Mkdir(sub, 0o755))
		fmt.Fprintf(&lines, "%s 192.0.2.0/24(ro,fsid=%d) *(ro,insecure)\n", sub, i+1)
	}
	port := freePort(t)
	s := t.newServer(lines.String())
	var all []time.Duration
	for range 7 {
		t.tried.Add(1)
		begin := time.Now()
		got := make(chan time.Time, 1)
		go func() {
			for pingOnce(port) != nil {
				time.Sleep(time.Millisecond)
			}
			got <- time.Now()
		}()
		t.must(s.start(port))
		all = append(all, (<-got).Sub(begin))
		s.proc.kill()
	}
	t.must(s.start(port))
	slices.Sort(all)
	t.notef("%d to %d ms from exec to the first reply", all[0].Milliseconds(), all[len(all)-1].Milliseconds())
	limit := startLimit
	if t.long < 3*time.Second {
		limit *= 25 // the short form runs beside other tests
	}
	if all[0] > limit && !raceEnabled {
		t.errorf("the fastest of %d starts took %v, at most %v wanted", len(all), all[0], limit)
	}
}

// freePort returns an address that nothing listens at.
func freePort(t *trial) string {
	l := get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	return l.Addr().String()
}
