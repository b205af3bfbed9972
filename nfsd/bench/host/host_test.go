package host

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// The lines are examples from proc_pid_stat(5)'s format, with names made to mislead.
func TestParseStat(t *testing.T) {
	name, cpu, err := parseStat("12 (a b) c) S 1 12 12 0 -1 4194560 1 2 3 4 150 50 0 0 20 0 1 0 5 6 7")
	if err != nil || name != "a b) c" || cpu != 2*time.Second {
		t.Errorf("%q, %v, %v", name, cpu, err)
	}
	for _, bad := range []string{"", "12 (x S 1", "12 (x) S 1 2 3 4 5 6 7 8 9 10 x y", ") (", "12 (x) S 1 2 3"} {
		if _, _, err := parseStat(bad); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

func TestRoles(t *testing.T) {
	for name, want := range map[string]string{"sl-t00": ServerThreads, "sl-n1-t03": ServerThreads, "sl-w12": WaitingThreads, "sl-n0-w00": WaitingThreads,
		"sl-io": Submitter, "sl-io0": Submitter, "sl-n0-io": Submitter, "iou-wrk-4711": Workers, "sluice": Other, "ganesha.nfsd": Other, "xsl-t00": Other, "": Other} {
		if got := roleOf(name); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
}

// Lines as the kernel's tcp4_seq_show and tcp6_seq_show print them on x86.
func TestParseListener(t *testing.T) {
	const rest = " 00000000:00000000 00:00000000 00000000     0        0 4242 1 0000000000000000 100 0 0 10 0"
	for line, want := range map[string]string{
		"   0: 0100007F:0801 00000000:0000 0A" + rest:                                                      "127.0.0.1:2049",
		"   1: 00000000:006F 00000000:0000 0A" + rest:                                                      "0.0.0.0:111",
		"   2: 00000000000000000000000001000000:0801 00000000000000000000000000000000:0000 0A" + rest:      "[::1]:2049",
		"   3: 0000000000000000FFFF00000100007F:0801 00000000000000000000000000000000:0000 0A" + rest:      "127.0.0.1:2049",
		"   4: 0100007F:0801 0100007F:9999 01" + rest:                                                      "", // established
		"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode": "",
		"   5: 0100007F 00000000:0000 0A" + rest:                                                           "",
		"   6: zz00007F:0801 00000000:0000 0A" + rest:                                                      "",
		"   7: 01007F:0801 00000000:0000 0A" + rest:                                                        "",
		"": "",
	} {
		at, inode, ok := parseListener(line)
		if ok != (want != "") || ok && (at.String() != want || inode != "4242") {
			t.Errorf("%q: %v, %q, %v; want %q", line, at, inode, ok, want)
		}
	}
}

// Documentation/block/stat.rst names the fields; the figures of iostat follow.
func TestDisk(t *testing.T) {
	a, err := parseDiskStat("100 0 2000 0 7 0 0 0 0 1000 0 0 0 0 0 0 0\n")
	if err != nil {
		t.Fatal(err)
	}
	b, err := parseDiskStat("150 9 12240 9 9 9 9 9 9 1500 9 9 9 9 9 9 9\n")
	if err != nil {
		t.Fatal(err)
	}
	got := b.Since(a, "vda", 2*time.Second)
	if want := (DiskUse{Name: "vda", ReadsPerSecond: 25, RequestKiB: 102.4, BusyPercent: 25}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if idle := a.Since(a, "vda", time.Second); idle != (DiskUse{Name: "vda"}) {
		t.Errorf("idle: %+v", idle)
	}
	for _, bad := range []string{"", "1 2 3", "1 2 3 4 5 6 7 8 9 10 x"} {
		if _, err := parseDiskStat(bad); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

func TestParseBusy(t *testing.T) {
	d, err := parseBusy("cpu  100 10 200 5000 600 7 3 80 50 0\ncpu0 1 2 3\n")
	if err != nil || d != 4*time.Second {
		t.Errorf("%v, %v; want 4s", d, err)
	}
	for _, bad := range []string{"", "cpu 1 2", "cpu0 1 2 3 4 5 6 7 8 9", "cpu 1 2 3 4 5 6 x 8 9"} {
		if _, err := parseBusy(bad); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

// Threads that were there before count from then, new ones from their beginning,
// and what threads used that have ended is Other.
func TestSince(t *testing.T) {
	before := CPU{threads: map[string]thread{"a": {ServerThreads, time.Second}, "gone": {ServerThreads, time.Second}}, total: 2 * time.Second}
	after := CPU{threads: map[string]thread{"a": {ServerThreads, 3 * time.Second}, "new": {Workers, time.Second}}, total: 6 * time.Second}
	got := after.Since(before)
	if len(got) != 3 || got[ServerThreads] != 2*time.Second || got[Workers] != time.Second || got[Other] != time.Second {
		t.Errorf("%v", got)
	}
}

// This process is found by its own listening socket, and its CPU time is seen.
func TestFindServer(t *testing.T) {
	for _, at := range []string{"127.0.0.1:0", "0.0.0.0:0", "[::1]:0"} {
		l, err := net.Listen("tcp", at)
		if err != nil {
			t.Logf("not tested: %v", err)
			continue
		}
		port := l.Addr().(*net.TCPAddr).AddrPort().Port()
		ip := netip.MustParseAddr("127.0.0.1")
		if at == "[::1]:0" {
			ip = netip.IPv6Loopback()
		}
		s := FindServer(netip.AddrPortFrom(ip, port))
		l.Close()
		if s == nil || len(s.PIDs) != 1 || s.PIDs[0] != os.Getpid() {
			t.Errorf("%s: %+v, want process %d", at, s, os.Getpid())
			continue
		}
		before := s.CPU()
		for start := Self(); Self()-start < 100*time.Millisecond; {
		}
		if used := s.CPU().Since(before)[Other]; used < 50*time.Millisecond {
			t.Errorf("%s: %v of CPU seen, 100ms used", at, used)
		}
	}
	if s := FindServer(netip.MustParseAddrPort("192.0.2.1:2049")); s != nil {
		t.Errorf("on another machine: %+v", s)
	}
}

func TestSameFileAndDrop(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if SameFile(name, 1, 1<<20) || SameFile(name+"x", 1, 1<<20) || SameFile(filepath.Dir(name), 1, 4096) {
		t.Error("another file is taken for this one")
	}
	if _, err := DiskOf(name); err != nil {
		t.Logf("not tested, dropping from the cache: %v", err)
		return
	}
	if err := DropFile(name); err != nil {
		t.Error(err)
	}
}
