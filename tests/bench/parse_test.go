package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/tests/guest"
)

func TestParseConsole(t *testing.T) {
	got, err := parseConsole([]byte("[ 0.1] boot\nRESULT knfsd 2 {\"op\":\"read\",\"bytes\":5}\r\nRESULT sluice-auto 1 {\"op\":\"null\"}\n"))
	if err != nil || len(got) != 2 || got[0].Peer != "knfsd" || got[0].Round != 2 || got[0].Bytes != 5 || got[1].Where != emulatedWhere {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{"", "nothing", "RESULT", "RESULT a 1", "RESULT a 1 {", "RESULT a x {}"} {
		if got, err := parseConsole([]byte(bad)); err == nil {
			t.Errorf("%q: %+v", bad, got)
		}
	}
}

// The reader makes results of what dd prints, as coreutils 9.1 does.
func TestReader(t *testing.T) {
	ns, err := guest.NewNamespace()
	if err != nil {
		t.Skip(err)
	}
	defer ns.Close()
	p, err := ns.Start(nil, "sleep", "60")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	r := reader{servers: []served{{name: "a", proc: p}, {name: "b", proc: p}}}
	text := "@begin 1\n1024+0 records in\n1024+0 records out\n1073741824 bytes (1.1 GB, 1.0 GiB) copied, 2.5 s, 429 MB/s\n@end\n" +
		"@begin 0\n@end\n@begin 0\n1000 bytes (1.0 kB) copied, 1e-3 s, 1.0 MB/s\n@end\n"
	for piece := range slices.Chunk([]byte(text), 7) {
		if _, err := r.Write(piece); err != nil {
			t.Fatal(err)
		}
	}
	if len(r.results) != 2 {
		t.Fatalf("%d results, want 2: %+v", len(r.results), r.results)
	}
	if a := r.results[0]; a.Peer != "b" || a.Bytes != 1<<30 || a.Seconds != 2.5 || a.Round != 1 {
		t.Errorf("%+v", a)
	}
	if b := r.results[1]; b.Peer != "a" || b.Bytes != 1000 || b.Seconds != 0.001 {
		t.Errorf("%+v", b)
	}
}

// The script has each server read from once a round, in alternating order.
func TestScript(t *testing.T) {
	o := options{rounds: 2, time: time.Second}
	script := o.script("/srv/data", []served{{name: "a", port: 1, mount: 2}, {name: "b", port: 3, mount: 4}})
	var order []string
	for line := range strings.Lines(script) {
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), `echo "@begin `); ok {
			order = append(order, n[:1])
		}
	}
	if !slices.Equal(order, []string{"0", "1", "1", "0"}) {
		t.Errorf("order %v in\n%s", order, script)
	}
}
