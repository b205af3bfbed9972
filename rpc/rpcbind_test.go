package rpc

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"sluice/rpc/xdr"
)

// Universal addresses as RFC 5665 section 5.2.3 writes them.
func TestUniversalAddress(t *testing.T) {
	for addr, want := range map[string]string{
		"192.0.2.1:2049":     "192.0.2.1.8.1",
		"0.0.0.0:111":        "0.0.0.0.0.111",
		"[2001:db8::1]:2049": "2001:db8::1.8.1",
		"[::]:65535":         "::.255.255",
	} {
		a := netip.MustParseAddrPort(addr)
		if got := uaddr(a); got != want {
			t.Errorf("%s: %q, want %q", addr, got, want)
		}
		if back, ok := parseUaddr(want); !ok || back != a {
			t.Errorf("%q: %v, %v", want, back, ok)
		}
	}
	for _, bad := range []string{"", ".", "1.2", "192.0.2.1.8", "192.0.2.1.256.1", "192.0.2.1.8.x", "host.8.1", "192.0.2.1.8.-1"} {
		if a, ok := parseUaddr(bad); ok {
			t.Errorf("%q is taken for %v", bad, a)
		}
	}
}

// fakeRpcbind keeps a table as rpcbind does and records what is asked of it.
type fakeRpcbind struct {
	mu    sync.Mutex
	table map[string]Mapping // key and address
	log   []string
}

// startRpcbind listens on a socket that Register finds.
func startRpcbind(t *testing.T, known ...Mapping) *fakeRpcbind {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rpcbind.sock")
	l, err := net.Listen("unix", path)
	must(t, err)
	old := rpcbindSocket
	rpcbindSocket = path
	b := &fakeRpcbind{table: make(map[string]Mapping)}
	for _, m := range known {
		b.table[key(m)] = m
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			b.serve(c)
		}
	})
	t.Cleanup(func() { l.Close(); serving.Wait(); rpcbindSocket = old })
	return b
}

func (b *fakeRpcbind) serve(c net.Conn) {
	defer c.Close()
	var buf []byte
	for {
		p := make([]byte, 4096)
		n, err := c.Read(p)
		if err != nil {
			return
		}
		buf = append(buf, p[:n]...)
		rec, used, err := nextRecord(buf)
		if err != nil {
			return
		}
		if used == 0 {
			continue
		}
		h, rest, _ := parseHeader(rec)
		reply := append(appendAccepted(nil, h.xid, acceptSuccess), b.answer(h.proc, rest[16:])...)
		if _, err := c.Write(fragments(reply)); err != nil {
			return
		}
		buf = buf[used:]
	}
}

// answer does SET, UNSET and DUMP of version 4 (RFC 1833 section 2.1).
func (b *fakeRpcbind) answer(proc uint32, args []byte) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	if proc == rpcbDump {
		var out []byte
		for _, m := range b.table {
			out = xdr.AppendUint32(xdr.AppendUint32(xdr.AppendUint32(out, 1), m.Program), m.Version)
			out = xdr.AppendString(xdr.AppendString(xdr.AppendString(out, m.netID()), uaddr(m.Addr)), "someone")
		}
		return xdr.AppendUint32(out, 0)
	}
	r := xdr.NewReader(args)
	m := Mapping{Program: r.Uint32(), Version: r.Uint32()}
	m.UDP = string(r.Opaque(64)) == "udp"
	m.Addr, _ = parseUaddr(string(r.Opaque(128)))
	_, taken := b.table[key(m)]
	switch proc {
	case rpcbSet:
		b.log = append(b.log, "SET "+key(m))
		if !taken {
			b.table[key(m)] = m
		}
		return xdr.AppendBool(nil, !taken)
	case rpcbUnset:
		b.log = append(b.log, "UNSET "+key(m))
		delete(b.table, key(m))
		return xdr.AppendBool(nil, taken)
	}
	return nil
}

func (b *fakeRpcbind) state() (log []string, table map[string]string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	table = make(map[string]string)
	for k, m := range b.table {
		table[k] = m.Addr.String()
	}
	return slices.Clone(b.log), table
}

// Registering sets what is free, replaces what nobody answers at, and leaves
// alone what another server holds; unregistering takes back one's own only.
func TestRegister(t *testing.T) {
	_, alive := startTestServer(t, Config{Programs: []Program{testProgram()}, Threads: 1, MaxConns: 10})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	dead := l.Addr().(*net.TCPAddr).AddrPort()
	l.Close()
	here := netip.MustParseAddrPort("127.0.0.1:2049")
	others := Mapping{Program: 77, Version: 1, Addr: netip.MustParseAddrPort(alive)}
	stale := Mapping{Program: 100005, Version: 3, Addr: dead}
	b := startRpcbind(t, others, stale)
	r := Register(context.Background(), []Mapping{
		{Program: 100003, Version: 3, Addr: here},
		{Program: 100005, Version: 3, Addr: here},
		{Program: 100005, Version: 3, Addr: here, UDP: true},
		{Program: 77, Version: 1, Addr: here},
		{Program: portmapProgram, Version: 2, Addr: here},
	}, slog.New(slog.NewTextHandler(io.Discard, nil)))
	log, table := b.state()
	want := []string{"SET 100003 3 tcp", "UNSET 100005 3 tcp", "SET 100005 3 tcp", "SET 100005 3 udp"}
	if !slices.Equal(log, want) {
		t.Errorf("asked %q, want %q", log, want)
	}
	for k, want := range map[string]string{"100003 3 tcp": here.String(), "100005 3 tcp": here.String(), "100005 3 udp": here.String(), "77 1 tcp": alive} {
		if table[k] != want {
			t.Errorf("%s is at %q, want %q", k, table[k], want)
		}
	}
	r.Unregister(context.Background())
	if _, table := b.state(); len(table) != 1 || table["77 1 tcp"] != alive {
		t.Errorf("after unregistering: %v, want the other server's alone", table)
	}
}

// Without an rpcbind nothing happens and nothing fails.
func TestRegisterWithoutRpcbind(t *testing.T) {
	old := rpcbindSocket
	rpcbindSocket = filepath.Join(t.TempDir(), "none")
	defer func() { rpcbindSocket = old }()
	r := Register(context.Background(), []Mapping{{Program: 1, Version: 1}}, slog.New(slog.NewTextHandler(io.Discard, nil)))
	r.Unregister(context.Background())
}

// A reply that is not the one to the call is an error, cut anywhere too.
func TestParseReply(t *testing.T) {
	good := append(appendAccepted(nil, 7, acceptSuccess), "body"...)
	if res, err := parseReply(good, 7); err != nil || string(res) != "body" {
		t.Errorf("%q, %v", res, err)
	}
	for name, rec := range map[string][]byte{
		"another xid":   append(appendAccepted(nil, 8, acceptSuccess), "body"...),
		"denied":        appendRPCMismatch(nil, 7),
		"not a success": appendAccepted(nil, 7, acceptProgUnavail),
		"a call":        callRecord(7, 0, nil),
	} {
		if res, err := parseReply(rec, 7); err == nil {
			t.Errorf("%s: results %q", name, res)
		}
	}
	for n := range acceptedLen {
		if _, err := parseReply(good[:n], 7); err == nil {
			t.Errorf("the first %d bytes of a reply are taken for one", n)
		}
	}
}
