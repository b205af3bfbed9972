package export

import (
	"errors"
	"slices"
	"strconv"
	"strings"
)

// The values of options, one method each. They return false for what exportfs
// refuses, which abandons the rest of the file, and mark the set refused for
// what only we refuse.

func (p *optionParser) refuse(hint, format string, args ...any) bool {
	p.rep.at(p.span(), Error, hint, format, args...)
	p.set.refused = true
	return true
}

func (p *optionParser) anonUID(v string) bool { return p.anonID("anonuid", v, &p.set.anonUID) }
func (p *optionParser) anonGID(v string) bool { return p.anonID("anongid", v, &p.set.anonGID) }

// anonID reads an id as exportfs does, with strtol(3) in base 10: -1 and -2
// are ids too. What does not fit 32 bits is refused instead of wrapped.
func (p *optionParser) anonID(name, v string, to *int32) bool {
	n, err := strconv.ParseInt(strings.TrimLeft(v, " \t"), 10, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		p.rep.at(p.span(), Error, "a number is wanted, -1 to 4294967295; user and group names are not looked up",
			"bad %s %q; the rest of the file is not read", name, v)
		return false
	}
	if err != nil || n < -1<<31 || n > 1<<32-1 {
		return p.refuse("an id has 32 bits", "%s=%s does not fit an id", name, v)
	}
	*to = int32(n) // the low 32 bits: etab and the kernel read them as %d
	return true
}

// fsid reads root, a number (strtoul(3) in base 0) or a UUID.
func (p *optionParser) fsid(v string) bool {
	if v == "root" {
		p.set.fsid = 0
		p.flag(NFSEXP_FSID, 0)
		return true
	}
	n, rest, overflow := strtoul(v)
	switch {
	case v != "" && rest == "" && overflow:
		return p.refuse("a number has 32 bits; write a UUID with its dashes", "fsid=%s does not fit", v)
	case v != "" && rest == "":
		p.set.fsid = n
		p.flag(NFSEXP_FSID, 0)
	case hexDigits(v) == 32:
		// exportfs keeps the leading digits of the UUID as the number, which
		// matters after fsid=N: the number is then lost.
		if p.set.flags&NFSEXP_FSID != 0 {
			p.rep.at(p.span(), Warning, "write the UUID before the number", "this UUID overwrites fsid=%d", int32(p.set.fsid))
		}
		p.set.fsid = n
		p.set.uuid = v
	default:
		p.rep.at(p.span(), Error, "fsid takes a number, root or a UUID of 32 hexadecimal digits",
			"bad fsid %q; the rest of the file is not read", v)
		return false
	}
	return true
}

func hexDigits(s string) (n int) {
	for i := range len(s) {
		if strings.IndexByte("0123456789abcdefABCDEF", s[i]) >= 0 {
			n++
		}
	}
	return n
}

// strtoul is strtoul(3) with base 0: blanks, a sign, 0x or 0, digits. It
// returns the low 32 bits, what follows the number, and whether more bits than
// 32 were needed.
func strtoul(s string) (n uint32, rest string, overflow bool) {
	t := strings.TrimLeft(s, " \t\n\v\f\r")
	neg := strings.HasPrefix(t, "-")
	if neg || strings.HasPrefix(t, "+") {
		t = t[1:]
	}
	base := 10
	switch {
	case len(t) > 2 && t[0] == '0' && (t[1] == 'x' || t[1] == 'X') && hexDigits(t[2:3]) == 1:
		base, t = 16, t[2:]
	case strings.HasPrefix(t, "0"):
		base = 8
	}
	i := 0
	for i < len(t) {
		if _, err := strconv.ParseUint(t[i:i+1], base, 8); err != nil {
			break
		}
		i++
	}
	if i == 0 {
		return 0, s, false
	}
	v, err := strconv.ParseUint(t[:i], base, 64)
	if err != nil {
		v = ^uint64(0) // ULONG_MAX
	}
	if neg && err == nil {
		// Only what a signed 32-bit number holds means itself: -1.
		return uint32(-v), t[i:], v > 1<<31
	}
	return uint32(v), t[i:], v > 1<<32-1
}

func (p *optionParser) mountpoint(v string) bool {
	p.set.mountpoint = Mountpoint{Set: true, Path: v}
	if v != "" && !strings.HasPrefix(v, "/") {
		p.rep.at(p.span(), Warning, "write it from the root: /…", "the mount point %q is a relative path", v)
	}
	return true
}

func (p *optionParser) mountpointSelf() { p.set.mountpoint = Mountpoint{Set: true} }

func (p *optionParser) refer(v string) bool {
	p.set.locations = Locations{"refer", v}
	return true
}

func (p *optionParser) replicas(v string) bool {
	p.set.locations = Locations{"replicas", v}
	return true
}

func (p *optionParser) squashUIDs(v string) bool { return p.idRange(v, &p.set.squashUIDs) }
func (p *optionParser) squashGIDs(v string) bool { return p.idRange(v, &p.set.squashGIDs) }

// idRange reads N or N-M. A comma ends the option before this is called, so
// that the lists of which nfs-utils' parser dreams cannot be written. A missing
// number is 0 there and refused here.
func (p *optionParser) idRange(v string, to *[]IDRange) bool {
	first, rest, ok := parseID(v)
	last := first
	if ok && strings.HasPrefix(rest, "-") {
		last, rest, ok = parseID(rest[1:])
	}
	switch {
	case rest != "":
		p.rep.at(p.span(), Error, "write squash_uids=0-99; repeat the option for further ranges",
			"bad list of ids %q; the rest of the file is not read", v)
		return false
	case ok && (first == -1 || last == -1):
		p.rep.at(p.span(), Error, "", "id -1 is not permitted; the rest of the file is not read")
		return false
	case !ok:
		return p.refuse("write squash_uids=0-99", "bad range of ids %q", v)
	}
	*to = append(slices.Clip(*to), IDRange{first, last})
	return true
}

// parseID reads an optional minus and digits. ok is false if there are none or
// the number is out of range.
func parseID(s string) (n int32, rest string, ok bool) {
	i := 0
	if strings.HasPrefix(s, "-") {
		i++
	}
	for i < len(s) && '0' <= s[i] && s[i] <= '9' {
		i++
	}
	v, err := strconv.ParseInt(s[:i], 10, 32)
	return int32(v), s[i:], err == nil
}

// sec reads a list of flavours; those already named keep their flags.
func (p *optionParser) sec(v string) bool {
	p.active = 0
	for name := range strings.SplitSeq(v, ":") {
		i, ok := p.flavor(name)
		if !ok {
			names := make([]string, 0, len(flavors))
			for _, f := range flavors {
				names = append(names, f.name)
			}
			p.rep.at(p.span(), Error, "one of "+strings.Join(names, ", ")+", separated by colons",
				"unknown security flavour %q; the rest of the file is not read", name)
			return false
		}
		p.active |= 1 << i
	}
	return true
}

// flavor returns the index of a flavour in the set, adding it with the flags
// that hold so far.
func (p *optionParser) flavor(name string) (int, bool) {
	s := p.set
	for _, f := range flavors {
		if f.name != name {
			continue
		}
		for i, e := range s.sec[:s.nsec] {
			if e.flavor == f.number {
				return i, true
			}
		}
		s.sec[s.nsec] = secEntry{name, f.number, s.flags}
		s.nsec++
		return s.nsec - 1, true
	}
	return 0, false
}
