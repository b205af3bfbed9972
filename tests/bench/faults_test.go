package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// hasFigure says whether a figure was printed.
func hasFigure(s string) bool { return strings.Contains(s, "GB/s") || strings.Contains(s, "calls/s") }

// Whatever a server does wrong, there is a clear line, no figure, and status 1.
func TestServerFaults(t *testing.T) {
	const size = 1 << 20
	for name, row := range map[string]struct {
		f    *fake
		args []string
		want string
	}{
		"silent from the start": {&fake{silent: true}, nil, "did not reply within"},
		"silent in the middle":  {&fake{silentAt: 3}, nil, "no reply for 1s, with"},
		"closes":                {&fake{closeAt: 3}, nil, "closed the connection"},
		"MNT refused":           {&fake{status: 13}, nil, "not exported to this machine"},
		"MNT of nothing":        {&fake{status: 2}, nil, "nothing there is exported"},
		"READ fails":            {&fake{read: func(uint64, uint32) reply { return reply{status: 5} }}, nil, "NFS3ERR_IO"},
		"stale":                 {&fake{read: func(uint64, uint32) reply { return reply{status: 70, noAttr: true} }}, nil, "NFS3ERR_STALE"},
		"short read": {&fake{read: func(off uint64, _ uint32) reply {
			if off == 0 {
				return reply{}
			}
			return reply{cut: 4}
		}}, nil, "short read: 65532 bytes came of 65536 at offset"},
		"no reply at all":                    {&fake{read: func(uint64, uint32) reply { return reply{raw: []byte("HTTP/1.1 400 Bad Request\r\n")} }}, nil, "reply"},
		"endless record":                     {&fake{read: func(uint64, uint32) reply { return reply{raw: []byte{0x7f, 0xff, 0xff, 0xff, 0}} }}, nil, "longer than"},
		"wrong data":                         {&fake{read: func(uint64, uint32) reply { return reply{data: 7} }}, []string{"--verify", zeros(t, size)}, "WRONG DATA at offset"},
		"more than the file to compare with": {&fake{}, []string{"--verify", zeros(t, size-1)}, "the server has more"},
		"file shorter than asked":            {&fake{}, []string{"--bytes", "2M"}, "has 1048576 bytes, fewer than the 2097152 asked for"},
	} {
		t.Run(name, func(t *testing.T) {
			f := row.f
			f.size, f.maxRead = size, 64<<10
			url := f.start(t)
			out, errOut, status := sluice(t, append([]string{"bench", "dd", url, "--timeout", "1s", "--conns", "2"}, row.args...)...)
			if status != 1 || hasFigure(out) || !strings.Contains(errOut, row.want) || strings.Count(errOut, "\n") != 1 {
				t.Errorf("status %d, want 1 and %q\n%s%s", status, row.want, out, errOut)
			}
		})
	}
}

// zeros is a file to compare with.
func zeros(t *testing.T, size int) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "zeros")
	if err := os.WriteFile(name, make([]byte, size), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// What is unusual but right is no fault.
func TestServerOddities(t *testing.T) {
	const size = 1<<20 + 3
	for name, read := range map[string]func(uint64, uint32) reply{
		"plain":         func(uint64, uint32) reply { return reply{} },
		"no attributes": func(uint64, uint32) reply { return reply{noAttr: true} },
		"a verifier":    func(uint64, uint32) reply { return reply{verifier: 20} },
		"fragments":     func(uint64, uint32) reply { return reply{fragment: 1000} },
	} {
		for _, verify := range []bool{false, true} {
			f := &fake{size: size, maxRead: 64 << 10, read: read}
			args := []string{"bench", "dd", f.start(t), "--conns", "3", "--timeout", "30s"}
			if verify {
				args = append(args, "--verify", zeros(t, size))
			}
			out, errOut, status := sluice(t, args...)
			if status != 0 || !strings.Contains(out, "1048579 bytes") || !hasFigure(out) || errOut != "" {
				t.Errorf("%s, comparing %v: status %d\n%s%s", name, verify, status, out, errOut)
			}
		}
	}
}

// A latency is not less than the server's delay.
func TestLatency(t *testing.T) {
	f := &fake{size: 64 << 10, maxRead: 64 << 10, delay: 50 * time.Millisecond}
	r := bench1(t, "dd", f.start(t), "--depth", "1")
	if r.Calls != 1 || r.Latency.P50 < 50_000 || r.Latency.Max < r.Latency.P50 || r.Seconds < 0.05 {
		t.Errorf("%+v", r)
	}
}

// Nobody is there, or not for NFS.
func TestUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "nfs://" + l.Addr().String() + "/export/file"
	l.Close()
	for _, row := range [][]string{{url, "connection refused"}, {"nfs://no-such-host.invalid/x", "unknown host"}} {
		out, errOut, status := sluice(t, "bench", "dd", row[0])
		if status != 1 || out != "" || !strings.Contains(errOut, row[1]) {
			t.Errorf("%s: status %d, want 1 and %q\n%s%s", row[0], status, row[1], out, errOut)
		}
	}
}

// What makes no sense has status 2 and is said before anything is done.
func TestUsage(t *testing.T) {
	f := &fake{size: 1 << 20, maxRead: 64 << 10}
	url := f.start(t)
	for want, args := range map[string][]string{
		"the server reads at most 65536":   {"dd", url, "--rsize", "128K"},
		`--rsize "8M"`:                     {"dd", url, "--rsize", "8M"},
		`--rsize "x"`:                      {"dd", url, "--rsize", "x"},
		"connections 0":                    {"dd", url, "--conns", "0"},
		"depth 9999":                       {"dd", url, "--depth", "9999"},
		"must be like nfs://":              {"dd", "/etc/passwd"},
		"no such file":                     {"dd", url, "--verify", "/nonexistent"},
		"must be one of":                   {"meta", url, "--op", "write"},
		"requires at least 1 arg":          {"dd"},
		"--sizes":                          {"sweep", url, "--sizes", "0"},
		"--conns":                          {"sweep", url, "--conns", "-1"},
		"must be NAME=URL":                 {"compare", "--peer", "x"},
		"--rounds 0":                       {"compare", "--rounds", "0"},
		"must be a file that is not empty": {"compare", "/dev/null"},
	} {
		out, errOut, status := sluice(t, append([]string{"bench"}, args...)...)
		if status != 2 || hasFigure(out) || !strings.Contains(errOut, want) {
			t.Errorf("%v: status %d, want 2 and %q\n%s%s", args, status, want, out, errOut)
		}
	}
}
