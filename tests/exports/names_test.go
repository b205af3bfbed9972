package exports

import (
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"sluice/tests/protocol/wire"
)

// A name service that never answers keeps up nobody who needs no name: neither
// his reads nor his mounts, while more clients wait for names than there are
// threads for it.
func TestResolverHangs(t *testing.T) {
	nameService(t)
	must(t, os.WriteFile("/etc/resolv.conf", []byte("nameserver 127.0.0.1\noptions timeout:30 attempts:1\n"), 0o644))
	dns := value(net.ListenPacket("udp", "127.0.0.1:53"))(t) // takes questions and says nothing
	defer dns.Close()
	dir := tree(t, "names/file", "addrs/file")
	s := startServer(t, fmt.Sprintf("%[1]s/names *.lab.test(ro)\n%[1]s/addrs 10.77.0.0/16(ro)\n", dir))
	c := s.from(inside)
	fh := c.find(c.mount(dir+"/addrs"), "file")
	known := s.from("10.77.1.1").mount(dir + "/names") // by /etc/hosts, and remembered
	var waiting []*client
	for i := range 100 {
		w := s.from(fmt.Sprintf("10.77.20.%d", i+1))
		call := wire.NewCall(wire.Mount, 3, 1, wire.Enc(nil).Str(dir+"/names"))
		if i%2 == 1 {
			call = wire.NewCall(wire.NFS, 3, wire.Readdir, fhArgs(known).U64(0).U32(0, 0).U32(4096))
		}
		must(t, w.conn.Send(wire.Fragment(call.Record(), true)))
		waiting = append(waiting, w)
	}
	time.Sleep(200 * time.Millisecond)
	const patience = time.Second
	another, named := s.from("10.77.0.9"), s.from("10.77.1.1")
	start, slowest := time.Now(), time.Duration(0)
	for time.Since(start) < 2*time.Second {
		for _, call := range []func(){
			func() { c.read(fh) },
			func() { another.mount(dir + "/addrs") },
			func() { c.list(c.mount(dir+"/addrs"), false) },
			func() { named.mount(dir + "/names") },
		} {
			before := time.Now()
			call()
			slowest = max(slowest, time.Since(before))
		}
	}
	if slowest > patience {
		t.Errorf("a call took %v while others wait for names", slowest)
	}
	t.Logf("slowest call %v while %d others wait for names", slowest, len(waiting))
	// In the end those who wait are told: no name matches.
	waiting[0].conn.SetReadDeadline(time.Now().Add(wire.Timeout))
	rec := value(waiting[0].conn.Receive())(t)
	if r := value(wire.ParseReply(rec))(t); r.Stat != wire.Success || (&wire.Dec{B: r.Results}).U32() != wire.ErrAcces {
		t.Errorf("MNT by who has no name: %+v", r)
	}
}
