package rpc

import (
	"slices"
	"testing"

	"sluice/rpc/xdr"
)

// authSys is an authsys_parms (RFC 5531 appendix A) of 40 bytes: 4 stamp, 4+8
// machine name, 8 uid and gid, 4+12 gids; behind it an AUTH_NONE verifier.
const authSys = "00000001 00000028 01020304 00000005 686f7374 31000000 000003e8 000007d0 00000003 0000000a 00000014 0000001e" +
	"00000000 00000000"

func TestCredParse(t *testing.T) {
	b := unhex(t, authSys)
	var c Cred
	r := xdr.NewReader(b)
	if stat := c.parse(&r); stat != AuthOK || r.Err() != nil || r.Len() != 0 {
		t.Fatalf("auth_stat %d, error %v, %d bytes left", stat, r.Err(), r.Len())
	}
	if c.Flavor != AuthSys || c.UID != 1000 || c.GID != 2000 || !slices.Equal(c.Groups(), []uint32{10, 20, 30}) {
		t.Errorf("flavour %d, uid %d, gid %d, groups %v", c.Flavor, c.UID, c.GID, c.Groups())
	}
	// A credential that is used again keeps nothing of the last caller.
	r = xdr.NewReader(make([]byte, 16))
	if stat := c.parse(&r); stat != AuthOK || c.UID == 1000 || c.UID == 0 || c.GID == 0 || len(c.Groups()) != 0 {
		t.Errorf("AUTH_NONE after AUTH_SYS: auth_stat %d, %+v", stat, c)
	}
}

// Cut anywhere, a credential is refused or the reader says that data is missing.
func TestCredTruncated(t *testing.T) {
	whole := unhex(t, authSys)
	for n := range whole {
		var c Cred
		r := xdr.NewReader(whole[:n])
		if stat := c.parse(&r); stat == AuthOK && r.Err() == nil {
			t.Errorf("first %d of %d bytes are accepted", n, len(whole))
		}
	}
	// A body shorter than what is in it.
	for n := byte(0); n < 40; n += 4 {
		b := slices.Concat(whole[:8+n], whole[48:])
		b[7] = n
		var c Cred
		r := xdr.NewReader(b)
		if stat := c.parse(&r); stat != AuthBadCred {
			t.Errorf("a body of %d bytes: auth_stat %d", n, stat)
		}
	}
}
