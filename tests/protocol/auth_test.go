package protocol

import (
	"strings"
	"testing"

	"sluice/tests/protocol/wire"
)

// Rows "opaque_auth over 400 bytes, more than 16 groups, machine name over 255"
// and "AUTH_SYS verifier other than AUTH_NONE" (RFC 5531 sections 8.2 and 9,
// appendix A).
func TestCredentials(t *testing.T) {
	c := dial(t, sharedServer(t))
	groups := func(n int) []uint32 { return make([]uint32, n) }
	long := wire.Sys(0, 0)
	long.Body = append(long.Body, make([]byte, 404-len(long.Body))...)
	short := wire.Sys(0, 0)
	short.Body = short.Body[:len(short.Body)-4]
	const accepted = ^uint32(0)
	for _, row := range []struct {
		name       string
		cred, verf wire.Opaque
		want       uint32
	}{
		{"16 groups", wire.Sys(0, 0, groups(16)...), wire.None, accepted},
		{"17 groups", wire.Sys(0, 0, groups(17)...), wire.None, wire.AuthBadCred},
		{"machine name of 255 bytes", wire.SysNamed(strings.Repeat("m", 255), 0, 0), wire.None, accepted},
		{"machine name of 256 bytes", wire.SysNamed(strings.Repeat("m", 256), 0, 0), wire.None, wire.AuthBadCred},
		{"body over 400 bytes", long, wire.None, wire.AuthBadCred},
		{"body cut short", short, wire.None, wire.AuthBadCred},
		{"empty AUTH_SYS", wire.Opaque{Flavor: 1}, wire.None, wire.AuthBadCred},
		{"AUTH_NONE", wire.None, wire.None, accepted},
		{"AUTH_NONE with a body", wire.Opaque{Body: make([]byte, 4)}, wire.None, wire.AuthBadCred},
		{"AUTH_SHORT", wire.Opaque{Flavor: 2}, wire.None, wire.AuthBadCred},
		{"unknown flavour", wire.Opaque{Flavor: 390003}, wire.None, wire.AuthBadCred},
		{"AUTH_SYS verifier", wire.Sys(0, 0), wire.Sys(0, 0), wire.AuthBadVerf},
		{"AUTH_NONE verifier with a body", wire.Sys(0, 0), wire.Opaque{Body: make([]byte, 4)}, wire.AuthBadVerf},
		{"AUTH_SYS verifier to AUTH_NONE", wire.None, wire.Opaque{Flavor: 1}, wire.AuthBadVerf},
	} {
		t.Run(row.name, func(t *testing.T) {
			call := wire.NewCall(wire.NFS, 3, wire.Null, nil)
			call.Cred, call.Verf = row.cred, row.verf
			r := value(c.conn.Call(call))(t)
			switch {
			case row.want == accepted && (r.Denied || r.Stat != wire.Success):
				t.Errorf("got %+v, want it accepted", r)
			case row.want != accepted && (!r.Denied || r.Stat != wire.AuthError || r.Auth != row.want):
				t.Errorf("got %+v, want AUTH_ERROR %d", r, row.want)
			}
		})
	}
}

// A message that ends inside its credential or verifier is answered, not dropped
// (RFC 5531: never silence).
func TestTruncatedHeader(t *testing.T) {
	c := dial(t, sharedServer(t))
	whole := wire.NewCall(wire.NFS, 3, wire.Null, nil).Record()
	for n := 24; n < len(whole); n += 4 {
		must(t, c.conn.Send(wire.Mark(whole[:n])))
		r := value(wire.ParseReply(value(c.conn.Receive())(t)))(t)
		garbage := !r.Denied && r.Stat == wire.GarbageArgs
		badcred := r.Denied && r.Stat == wire.AuthError && r.Auth == wire.AuthBadCred
		if !garbage && !badcred {
			t.Errorf("first %d bytes: got %+v, want GARBAGE_ARGS or AUTH_BADCRED", n, r)
		}
	}
}

// Row "AUTH_NONE where sec=sys": NFS3ERR_ACCES with the attributes left out, and
// with sec=none such a caller is the anonymous user.
func TestAuthNone(t *testing.T) {
	needRoot(t)
	c := dial(t, sharedServer(t))
	none := c.as(wire.None)
	if status, _ := none.getattr(c.mount(treePath("pub"))); status != wire.ErrAcces {
		t.Errorf("GETATTR with AUTH_NONE under sec=sys: status %d, want NFS3ERR_ACCES", status)
	}
	status, fh, flavors := c.mnt(treePath("none"))
	if status != 0 || len(flavors) != 2 {
		t.Fatalf("MNT under sec=none:sys: status %d, flavours %v", status, flavors)
	}
	if r := none.read(none.find(fh, "hello"), 0, 100); r.status != wire.OK || string(r.data) != helloText {
		t.Errorf("READ with AUTH_NONE under sec=none: %+v", r)
	}
}

// Row "client port not privileged where secure": MOUNT says ACCES, NFS says
// PERM; from a port below 1024 both work.
func TestPrivilegedPort(t *testing.T) {
	s := sharedServer(t)
	plain, low := dial(t, s), dialPrivileged(t, s)
	dir := treePath("secure")
	if status, _, _ := plain.mnt(dir); status != wire.ErrAcces {
		t.Errorf("MNT from a high port: status %d, want MNT3ERR_ACCES", status)
	}
	fh := low.mount(dir)
	if status, _ := low.getattr(fh); status != wire.OK {
		t.Errorf("GETATTR from a low port: status %d", status)
	}
	if status, _ := plain.getattr(fh); status != wire.ErrPerm {
		t.Errorf("GETATTR from a high port: status %d, want NFS3ERR_PERM", status)
	}
	if r := plain.read(low.find(fh, "hello"), 0, 10); r.status != wire.ErrPerm {
		t.Errorf("READ from a high port: status %d, want NFS3ERR_PERM", r.status)
	}
}
