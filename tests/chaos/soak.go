package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"sluice/tests/protocol/wire"
)

var soakFaults = []fault{{"soak", "everything at once, again and again: is anything left behind?", soak}}

// levels is what must not grow from one round of the same load to the next.
type levels struct {
	gauge
	goroutines int
	pipes      int
	files      int
}

func (l levels) String() string {
	return fmt.Sprintf("%d descriptors, %d threads, %d goroutines, %d pipes in use, %d files open, %d KiB", l.descriptors, l.threads,
		l.goroutines, l.pipes, l.files, l.anon)
}

// What a server may keep for next time: empty pipes and open files, of two
// descriptors each; waiting threads, each with its goroutine; memory that the
// collector has not returned. A round has soakVisits clients, so that what is
// lost with each of them goes beyond that in three rounds.
const (
	soakFiles       = 20
	soakVisits      = 6 * 30
	keptDescriptors = 2*64 + 2*soakFiles
	keptThreads     = 64
	keptKiB         = 24 << 10
)

// soak makes rounds of mixed load. After a few, memory and all else are on a
// level that further rounds do not raise.
func soak(t *trial) {
	dir := t.ext4("data", 256)
	for i := range soakFiles {
		t.must(os.WriteFile(fmt.Sprintf("%s/%d", dir, i), bytes.Repeat([]byte{'x'}, 1<<(i%20)), 0o644))
	}
	metrics := freePort(t)
	s := t.serve(export(dir, ""), "--metrics", metrics, "--peer-timeout", peerTimeout.String())
	src := t.makeSource(s, dir, "f", 64<<20)
	root := get(t.dial(s).mount(dir))(t)
	const warm = 3
	var first, last levels
	ctx := t.until()
	for round := 0; round < warm+3 || ctx.Err() == nil; round++ {
		t.mixedLoad(s, dir, root, src, round)
		last = s.settle(metrics)
		t.tried.Add(1)
		if round == warm {
			first = last
		}
	}
	t.notef("at first %v, at last %v", first, last)
	if last.descriptors > first.descriptors+keptDescriptors || last.goroutines > first.goroutines+keptThreads ||
		last.threads > first.threads+keptThreads || last.pipes > 0 || last.anon > first.anon+keptKiB {
		t.errorf("after rounds of the same load: at first %v, at last %v", first, last)
	}
}

// mixedLoad is one round.
func (t *trial) mixedLoad(s *server, dir string, root []byte, src source, round int) {
	r := t.startReaders(s, src, 4, false)
	t.forget(dir + "/f") // some of it comes from the disk
	var all sync.WaitGroup
	for i := range 6 {
		rnd := rand.New(rand.NewPCG(uint64(round), uint64(i)))
		all.Go(func() {
			for range soakVisits / 6 {
				if err := t.visit(s, root, src, rnd); err != nil {
					t.errorf("%w", err)
					return
				}
			}
		})
	}
	all.Wait()
	r.stop()
}

// visit is a client that does this and that, and goes in one way or another.
func (t *trial) visit(s *server, root []byte, src source, rnd *rand.Rand) error {
	c, err := dial(s.addr)
	if err != nil {
		return err
	}
	defer c.conn.Close()
	c.cred = wire.Sys(uint32(rnd.IntN(2000)), uint32(rnd.IntN(2000)))
	if _, _, err := c.readdir(root, 0, 8192); err != nil {
		return err
	}
	for range 10 {
		fh, err := c.lookup(root, fmt.Sprint(rnd.IntN(soakFiles+2)))
		if err == nil {
			_, err = c.read(fh, 0, 1<<20)
		}
		if err != nil && !errors.As(err, new(status)) {
			return err
		}
	}
	rec := wire.Mark(wire.NewCall(wire.NFS, 3, wire.Read, readArgs(src.fh, uint64(rnd.Int64N(src.size)), 1<<20)).Record())
	switch rnd.IntN(4) {
	case 0:
		_ = c.conn.Send(rec[:rnd.IntN(len(rec))])
	case 1:
		_ = c.conn.Send(bytes.Repeat(rec, 8))
		_ = c.conn.SetLinger(0)
	case 2:
		_ = c.conn.Send([]byte("GET / HTTP/1.0\r\n\r\n"))
	}
	return nil
}

// settle waits for the clients' connections and pipes to be given up, and returns
// what is left.
func (s *server) settle(metrics string) (l levels) {
	eventually(settleLimit, func() bool {
		st, err := s.status()
		l.pipes, l.files = st.NFS.PipesInUse, st.NFS.FilesOpen
		return err == nil && st.RPC.Connections <= 2 && st.NFS.PipesInUse == 0 // the trial's own stay
	})
	l.gauge = s.gauge()
	l.goroutines = s.goroutines(metrics)
	return l
}

// goroutines asks the metrics endpoint.
func (s *server) goroutines(addr string) int {
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: (&net.Dialer{}).DialContext}}
	res, err := client.Get("http://" + addr + "/metrics")
	if err != nil {
		s.t.errorf("metrics: %w", err)
		return 0
	}
	defer res.Body.Close()
	var b bytes.Buffer
	_, _ = b.ReadFrom(res.Body)
	for line := range strings.Lines(b.String()) {
		if n, ok := strings.CutPrefix(line, "go_goroutines "); ok {
			return atoi(strings.TrimSpace(n))
		}
	}
	s.t.errorf("the metrics do not count goroutines")
	return 0
}
