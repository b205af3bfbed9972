package main

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func TestParseSize(t *testing.T) {
	for s, want := range map[string]int{"1": 1, "4096": 4096, "64K": 65536, "1M": 1 << 20, "2047M": 2047 << 20} {
		if n, err := parseSize("--x", s); err != nil || n != want {
			t.Errorf("%q: %d, %v; want %d", s, n, err, want)
		}
	}
	for _, bad := range []string{"", "K", "0", "0K", "-1", "+1", "1.5M", "1k", "1G", "2048M", "4194304K", "99999999999999999999", "1 K", "0x10"} {
		if n, err := parseSize("--x", bad); err == nil || !strings.Contains(err.Error(), "--x") {
			t.Errorf("%q: %d, %v", bad, n, err)
		}
	}
}

// Directories are served to this machine alone; the exports file to everybody.
func TestConfigDefaults(t *testing.T) {
	base := serveFlags{sendPath: "auto", ioContext: "shared", readahead: "auto", ioUring: "auto", numa: "auto", rpcbind: "auto", sandbox: "auto", maxRead: "1M",
		logFormat: "text", logLevel: "info", stateDir: "/state"}
	c, err := base.config(nil)
	if err != nil || c.exports != "/etc/exports" || !slices.Equal(c.listen, []string{":2049"}) || c.threads < 2 || c.maxRead != 1<<20 || !c.rpcbind {
		t.Errorf("without arguments: %+v, %v", c, err)
	}
	c, err = base.config([]string{"/srv"})
	if err != nil || c.exports != "" || !slices.Equal(c.listen, []string{"127.0.0.1:2049", "[::1]:2049"}) {
		t.Errorf("with a directory: %+v, %v", c, err)
	}
	given := base
	given.listen, given.threads, given.exports, given.rpcbind = []string{"192.0.2.1:1"}, 7, "/x", "off"
	c, err = given.config(nil)
	if err != nil || c.threads != 7 || c.exports != "/x" || !slices.Equal(c.listen, given.listen) || c.rpcbind {
		t.Errorf("as given: %+v, %v", c, err)
	}
}

// Every mistake is named, all of them at once.
func TestConfigErrors(t *testing.T) {
	f := serveFlags{sendPath: "pigeon", ioContext: "none", readahead: "much", ioUring: "maybe", numa: "yes", rpcbind: "on", sandbox: "box", maxRead: "big",
		logFormat: "xml", logLevel: "info", threads: 5000, exports: "/x"}
	_, err := f.config([]string{"/srv"})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"pigeon", "--io-context", "--readahead", "--numa", "--rpcbind", "--sandbox", "--max-read", "--log-format", "--threads", "--state-dir", "--exports"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the message does not name %s:\n%v", want, err)
		}
	}
}

// A socket for every address answers IPv4 too, and the portmapper says so.
func TestPortmapAddrs(t *testing.T) {
	in := []netip.AddrPort{netip.MustParseAddrPort("[::]:2049"), netip.MustParseAddrPort("192.0.2.1:99")}
	want := []netip.AddrPort{netip.MustParseAddrPort("0.0.0.0:2049"), netip.MustParseAddrPort("[::]:2049"), netip.MustParseAddrPort("192.0.2.1:99")}
	if got := portmapAddrs(in); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A free port is the same one for TCP and UDP; what cannot be listened on leaves
// nothing open.
func TestListen(t *testing.T) {
	s, err := listen([]string{"127.0.0.1:0", "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	addrs := s.addrs()
	if len(addrs) != 2 || addrs[0] == addrs[1] {
		t.Fatalf("addresses %v", addrs)
	}
	for i, u := range s.udp {
		if got := u.LocalAddr().String(); got != addrs[i].String() {
			t.Errorf("UDP at %s, TCP at %s", got, addrs[i])
		}
	}
	if _, err := listen([]string{addrs[0].String()}); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a port in use: %v", err)
	}
	for _, bad := range []string{"", "x", "127.0.0.1", "localhost:1", "127.0.0.1:99999", "[::1:5"} {
		if s, err := listen([]string{bad}); err == nil {
			t.Errorf("%q: listens at %v", bad, s.addrs())
			s.close()
		}
	}
}

// The exit status is 2 for what the user got wrong, 0 for what he asked to see.
func TestExitStatus(t *testing.T) {
	for _, row := range []struct {
		args []string
		want int
	}{
		{[]string{"version"}, exitOK}, {[]string{"--help"}, exitOK}, {[]string{"serve", "--help"}, exitOK},
		{nil, exitUsage}, {[]string{"nonsense"}, exitUsage}, {[]string{"--nonsense"}, exitUsage}, {[]string{"version", "extra"}, exitUsage},
		{[]string{"exports"}, exitUsage}, {[]string{"exports", "check"}, exitUsage}, {[]string{"exports", "why", "f", "host", "/p"}, exitUsage},
		{[]string{"status", "--state-dir", "/nonexistent"}, exitFailed},
	} {
		if got := run(row.args); got != row.want {
			t.Errorf("%q: exit status %d, want %d", row.args, got, row.want)
		}
	}
}
