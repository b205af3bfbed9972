package rpc

import "sluice/rpc/xdr"

// Authentication flavours (RFC 5531 section 8.2).
const (
	AuthNone = 0
	AuthSys  = 1
)

// AuthStat says why a credential or verifier was refused (RFC 5531 section 9, auth_stat).
type AuthStat uint32

// The auth_stat values that this server sends.
const (
	AuthOK      AuthStat = 0
	AuthBadCred AuthStat = 1
	AuthBadVerf AuthStat = 3
	AuthTooWeak AuthStat = 5
)

// Cred is a caller as its credential describes it. Nothing proves it: AUTH_SYS
// is a claim (RFC 5531 section 14).
type Cred struct {
	Flavor  uint32
	UID     uint32
	GID     uint32
	ngroups int
	groups  [MaxGroups]uint32
}

// Groups returns the supplementary groups. The slice belongs to the Cred.
func (c *Cred) Groups() []uint32 { return c.groups[:c.ngroups] }

// nobody is the identity of a caller that gives none (RFC 1813 leaves it to the
// server; Linux uses -2 too).
const nobody = 65534

// parse reads credential and verifier. It refuses what Linux refuses: a flavour
// it does not know or a malformed body is AUTH_BADCRED, and with AUTH_NONE and
// AUTH_SYS the verifier must be AUTH_NONE and empty (RFC 5531 section 8.2,
// appendix A). A message that ends inside either leaves r failed.
func (c *Cred) parse(r *xdr.Reader) AuthStat {
	c.Flavor, c.UID, c.GID, c.ngroups = r.Uint32(), nobody, nobody, 0
	n := r.Uint32()
	if n > maxAuthBody {
		return AuthBadCred
	}
	body := xdr.NewReader(r.Fixed(int(n)))
	if r.Err() != nil {
		return AuthOK
	}
	switch c.Flavor {
	case AuthNone:
		if n != 0 {
			return AuthBadCred
		}
	case AuthSys:
		if !c.parseSys(&body) {
			return AuthBadCred
		}
	default:
		return AuthBadCred
	}
	if r.Uint32() != AuthNone || r.Uint32() != 0 {
		if r.Err() == nil {
			return AuthBadVerf
		}
	}
	return AuthOK
}

func (c *Cred) parseSys(r *xdr.Reader) bool {
	r.Uint32() // stamp: arbitrary, chosen by the caller
	r.Opaque(maxMachineName)
	c.UID, c.GID = r.Uint32(), r.Uint32()
	n := r.Uint32()
	if n > MaxGroups {
		return false
	}
	c.ngroups = int(n)
	for i := range c.groups[:n] {
		c.groups[i] = r.Uint32()
	}
	return r.Err() == nil
}
