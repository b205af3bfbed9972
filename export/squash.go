package export

// invalidID is the kernel's INVALID_UID and INVALID_GID: nobody at all. A
// caller without a uid (AUTH_NONE) has it.
const invalidID = ^uint32(0)

// FlavorOptions are the options of an export for callers with one RPC
// authentication flavour.
type FlavorOptions struct {
	Flavor     uint32 // RPC number: AUTH_NONE, AUTH_SYS, RPC_AUTH_GSS_…
	Name       string // as in sec=, e.g. "sys"
	ReadOnly   bool
	Secure     bool // the client's port must be below 1024
	RootSquash bool
	AllSquash  bool
	AnonUID    uint32
	AnonGID    uint32
}

// Squash maps a caller as the kernel's nfsd_setuser does (fs/nfsd/auth.c):
// all_squash gives everybody the anonymous ids and no further group;
// root_squash maps uid 0, gid 0 and each group 0; and a caller without an id
// (AUTH_NONE) gets the anonymous one in any case. The groups are appended to
// dst; nothing else is allocated.
func (f FlavorOptions) Squash(uid, gid uint32, groups []uint32, dst []uint32) (u, g uint32, gs []uint32) {
	switch {
	case f.AllSquash:
		return f.AnonUID, f.AnonGID, dst
	case f.RootSquash:
		if uid == 0 {
			uid = f.AnonUID
		}
		if gid == 0 {
			gid = f.AnonGID
		}
		for _, x := range groups {
			if x == 0 {
				x = f.AnonGID
			}
			dst = append(dst, x)
		}
	default:
		dst = append(dst, groups...)
	}
	if uid == invalidID {
		uid = f.AnonUID
	}
	if gid == invalidID {
		gid = f.AnonGID
	}
	return uid, gid, dst
}
