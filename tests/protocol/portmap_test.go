package protocol

import (
	"fmt"
	"net/netip"
	"testing"

	"sluice/tests/protocol/wire"
)

const (
	protoTCP = 6
	protoUDP = 17
)

// ask makes a call over TCP or UDP and returns its results.
func ask(t *testing.T, s *server, udp bool, prog, vers, proc uint32, args []byte) *wire.Dec {
	t.Helper()
	if !udp {
		return dial(t, s).call(prog, vers, proc, args)
	}
	r := value(wire.CallUDP(s.addr, wire.NewCall(prog, vers, proc, args)))(t)
	if r.Denied || r.Stat != wire.Success {
		t.Fatalf("program %d version %d procedure %d over UDP: %+v", prog, vers, proc, r)
	}
	return &wire.Dec{B: r.Results}
}

func overBoth(t *testing.T, f func(t *testing.T, udp bool)) {
	for _, udp := range []bool{false, true} {
		name := "TCP"
		if udp {
			name = "UDP"
		}
		t.Run(name, func(t *testing.T) { f(t, udp) })
	}
}

// GETPORT of portmap version 2 (RFC 1833 section 3): the server's own port for
// what it serves, 0 for the rest; NFS is not there over UDP.
func TestGetport(t *testing.T) {
	s := sharedServer(t)
	port := uint32(netip.MustParseAddrPort(s.addr).Port())
	overBoth(t, func(t *testing.T, udp bool) {
		for _, row := range []struct{ prog, vers, proto, want uint32 }{
			{wire.NFS, 3, protoTCP, port},
			{wire.NFS, 3, protoUDP, 0},
			{wire.Mount, 3, protoTCP, port},
			{wire.Mount, 3, protoUDP, port},
			{wire.Mount, 1, protoUDP, port},
			{wire.Portmap, 2, protoTCP, port},
			{100021, 4, protoTCP, 0},
			{100227, 3, protoTCP, 0},
		} {
			d := ask(t, s, udp, wire.Portmap, 2, 3, wire.Enc(nil).U32(row.prog, row.vers, row.proto, 0))
			if got := d.U32(); got != row.want || d.End() != nil {
				t.Errorf("GETPORT %d version %d protocol %d: %d (%v), want %d", row.prog, row.vers, row.proto, got, d.End(), row.want)
			}
		}
	})
}

// Row "showmount -e": GETADDR of version 4, and of 3, names a universal address
// (RFC 1833 section 2.1, RFC 5665).
func TestGetaddr(t *testing.T) {
	s := sharedServer(t)
	port := netip.MustParseAddrPort(s.addr).Port()
	here := fmt.Sprintf("127.0.0.1.%d.%d", port>>8, port&0xff)
	overBoth(t, func(t *testing.T, udp bool) {
		for _, row := range []struct {
			prog, vers uint32
			netid      string
			want       string
		}{
			{wire.Mount, 3, "tcp", here},
			{wire.Mount, 3, "udp", here},
			{wire.NFS, 3, "tcp", here},
			{wire.NFS, 3, "udp", ""},
			{wire.NFS, 3, "tcp6", ""},
			{100021, 4, "tcp", ""},
		} {
			for _, vers := range []uint32{3, 4} {
				args := wire.Enc(nil).U32(row.prog, row.vers).Str(row.netid).Str("").Str("")
				d := ask(t, s, udp, wire.Portmap, vers, 3, args)
				if got := string(d.Opaque(128)); got != row.want || d.End() != nil {
					t.Errorf("v%d GETADDR %d/%d %s: %q (%v), want %q", vers, row.prog, row.vers, row.netid, got, d.End(), row.want)
				}
			}
		}
	})
}

// DUMP lists what is served and no more, in version 2 and in 3 and 4. A UDP port
// that does not answer NFS is not listed for NFS.
func TestPortmapDump(t *testing.T) {
	s := sharedServer(t)
	port := uint32(netip.MustParseAddrPort(s.addr).Port())
	want := make(map[string]bool)
	for _, proto := range []string{"tcp", "udp"} {
		for _, pv := range []string{"100000/2", "100000/3", "100000/4", "100005/1", "100005/3"} {
			want[pv+" "+proto] = true
		}
	}
	want["100003/3 tcp"] = true
	overBoth(t, func(t *testing.T, udp bool) {
		d := ask(t, s, udp, wire.Portmap, 2, 4, nil)
		got := make(map[string]bool)
		for d.Bool() {
			prog, vers, proto, p := d.U32(), d.U32(), d.U32(), d.U32()
			got[fmt.Sprintf("%d/%d %s", prog, vers, map[uint32]string{protoTCP: "tcp", protoUDP: "udp"}[proto])] = p == port
		}
		sameSet(t, "version 2", got, want)
		must(t, d.End())
		for _, vers := range []uint32{3, 4} {
			d := ask(t, s, udp, wire.Portmap, vers, 4, nil)
			got := make(map[string]bool)
			for d.Bool() {
				prog, v, netid, addr := d.U32(), d.U32(), d.Opaque(64), d.Opaque(128)
				d.Opaque(64) // owner
				got[fmt.Sprintf("%d/%d %s", prog, v, netid)] = string(addr) == fmt.Sprintf("127.0.0.1.%d.%d", port>>8, port&0xff)
			}
			sameSet(t, fmt.Sprintf("version %d", vers), got, want)
			must(t, d.End())
		}
	})
}

func sameSet(t *testing.T, what string, got, want map[string]bool) {
	t.Helper()
	for k, ok := range got {
		if !want[k] || !ok {
			t.Errorf("%s: unexpected %q, address right: %v", what, k, ok)
		}
	}
	for k := range want {
		if _, ok := got[k]; !ok {
			t.Errorf("%s: %q is missing", what, k)
		}
	}
}

// Nobody can register with the server's own portmapper: SET and UNSET are
// answered FALSE and change nothing.
func TestPortmapSet(t *testing.T) {
	s := sharedServer(t)
	overBoth(t, func(t *testing.T, udp bool) {
		v2 := wire.Enc(nil).U32(wire.NFS, 3, protoUDP, 999)
		v4 := wire.Enc(nil).U32(wire.NFS, 3).Str("udp").Str("127.0.0.1.3.231").Str("root")
		for _, row := range []struct {
			vers, proc uint32
			args       []byte
		}{{2, 1, v2}, {2, 2, v2}, {3, 1, v4}, {3, 2, v4}, {4, 1, v4}, {4, 2, v4}} {
			d := ask(t, s, udp, wire.Portmap, row.vers, row.proc, row.args)
			if d.Bool() || d.End() != nil {
				t.Errorf("version %d procedure %d: not FALSE (%v)", row.vers, row.proc, d.End())
			}
		}
		d := ask(t, s, udp, wire.Portmap, 2, 3, wire.Enc(nil).U32(wire.NFS, 3, protoUDP, 0))
		if got := d.U32(); got != 0 {
			t.Errorf("after SET: NFS over UDP at port %d", got)
		}
	})
}
