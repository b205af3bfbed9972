package export

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Kind is a kind of client, in the order of precedence (nfs-utils' MCL_…).
type Kind uint8

const (
	Host      Kind = iota // one host, by name or address
	Network               // ADDRESS/MASK
	Wildcard              // *.example.org
	Netgroup              // @group
	Anonymous             // everyone: "*" or nothing
	GSS                   // gss/krb5…, the old way to ask for RPCSEC_GSS; never matches
	numKinds
)

func (k Kind) String() string {
	return [...]string{"host", "network", "wildcard", "netgroup", "everyone", "gss"}[k]
}

// Client says whom an entry is for.
type Client struct {
	Kind Kind
	// Name is the client as nfs-utils' etab has it: a host's canonical name,
	// or what was written.
	Name string
	// Written is the client as it stands in the file.
	Written string
	// Addrs are a host's addresses. IPv4-mapped ones are kept as IPv4.
	Addrs []netip.Addr

	network network
}

func (c Client) String() string {
	if c.Name == "" {
		return "*"
	}
	return c.Name
}

// network is an address and mask, which need not be contiguous.
type network struct {
	base, mask key
	is4        bool
}

// key is an address as a map key and mask operand: IPv4 in the first word.
type key struct{ hi, lo uint64 }

// keyOf returns the key of an address, IPv4-mapped ones as IPv4.
func keyOf(a netip.Addr) (k key, is4 bool) {
	a = a.Unmap()
	if a.Is4() {
		b := a.As4()
		return key{uint64(binary.BigEndian.Uint32(b[:])) << 32, 0}, true
	}
	b := a.As16()
	return key{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}, false
}

func (k key) and(m key) key { return key{k.hi & m.hi, k.lo & m.lo} }

// prefixMask is the mask of the first n bits.
func prefixMask(n int) key {
	ones := ^uint64(0)
	if n <= 64 {
		return key{ones << (64 - n), 0} // n == 0 shifts by 64, which is 0 in Go
	}
	return key{ones, ones << (128 - n)}
}

// kindOf is nfs-utils' client_gettype: the first of "*?[" or "/" that no
// backslash precedes decides between wildcard and network.
func kindOf(host string) Kind {
	switch {
	case host == "" || host == "*":
		return Anonymous
	case strings.HasPrefix(host, "gss/"):
		return GSS
	case host[0] == '@':
		return Netgroup
	}
	for i := 0; i < len(host); i++ {
		switch host[i] {
		case '*', '?', '[':
			return Wildcard
		case '/':
			return Network
		case '\\':
			i++
		}
	}
	return Host
}

// parseNetwork reads ADDRESS/PREFIX or ADDRESS/MASK. It returns what is wrong,
// with a hint, or "".
func parseNetwork(s string) (n network, wrong, hint string) {
	addr, mask, _ := strings.Cut(s, "/")
	a, err := netip.ParseAddr(addr)
	if err != nil {
		if _, ok := inetAton(addr); ok {
			return n, "invalid address " + strconv.Quote(addr), "write four decimal numbers: 10.0.0.0/8"
		}
		return n, "invalid address " + strconv.Quote(addr), "a network is ADDRESS/PREFIX, such as 192.0.2.0/24; names have none"
	}
	bits := 128
	n.is4 = a.Is4()
	if n.is4 {
		bits = 32
	}
	switch spelled := strings.Contains(mask, map[bool]string{true: ".", false: ":"}[n.is4]); {
	case mask == "":
		return n, "the prefix length after / is missing", "write " + addr + "/" + strconv.Itoa(bits*3/4) + ", say; * is for everyone"
	case spelled:
		m, err := netip.ParseAddr(mask)
		if err != nil || m.Is4() != n.is4 || m.Zone() != "" {
			return n, "invalid netmask " + strconv.Quote(mask), "a mask is a number of bits or as long as an address: 255.255.255.0"
		}
		b := m.AsSlice()
		n.mask = key{be64(b), 0}
		if !n.is4 {
			n.mask = key{be64(b), be64(b[8:])}
		}
	default:
		p, ok := parsePrefix(mask, bits)
		if !ok {
			return n, "invalid prefix length " + strconv.Quote(mask), "a prefix length is a number from 0 to " + strconv.Itoa(bits)
		}
		n.mask = prefixMask(p)
	}
	n.base = n.rawKey(a).and(n.mask)
	n.unmap()
	return n, "", ""
}

// rawKey is keyOf without the unmapping, so that a mapped network keeps its
// 128-bit form until its mask is known.
func (n network) rawKey(a netip.Addr) key {
	b := a.AsSlice()
	if n.is4 {
		return key{be64(b), 0}
	}
	return key{be64(b), be64(b[8:])}
}

// be64 reads up to eight bytes, big end first, as the first ones of a word.
func be64(b []byte) uint64 {
	var w [8]byte
	copy(w[:], b)
	return binary.BigEndian.Uint64(w[:])
}

// unmap turns a network within ::ffff:0:0/96 into its IPv4 form, as its
// clients are.
func (n *network) unmap() {
	const mapped = 0xffff << 32
	if n.is4 || n.base.hi != 0 || n.mask.hi != ^uint64(0) || n.mask.lo>>32 != 0xffff_ffff || n.base.lo&^0xffff_ffff != mapped {
		return
	}
	n.is4 = true
	n.base = key{n.base.lo << 32, 0}
	n.mask = key{n.mask.lo << 32, 0}
}

func parsePrefix(s string, bits int) (int, bool) {
	if strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	return n, err == nil && n <= bits
}

// contiguous reports whether the mask is a prefix.
func (n network) contiguous() bool {
	return contiguous64(n.mask.hi) && contiguous64(n.mask.lo) && (n.mask.lo == 0 || n.mask.hi == ^uint64(0))
}

func contiguous64(m uint64) bool { return ^m&(^m+1) == 0 }

// inetAton reports whether s is an IPv4 address as inet_aton(3), and so
// getaddrinfo(3), takes one but people hardly mean it: one to four numbers,
// octal or hexadecimal too, the last filling the rest.
func inetAton(s string) (netip.Addr, bool) {
	parts := strings.Split(s, ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var v uint64
	for i, part := range parts {
		base := 10
		digits := part
		switch {
		case len(part) > 2 && (strings.HasPrefix(part, "0x") || strings.HasPrefix(part, "0X")):
			base, digits = 16, part[2:]
		case len(part) > 1 && part[0] == '0':
			base, digits = 8, part[1:]
		}
		n, err := strconv.ParseUint(digits, base, 32)
		room := uint(8)
		if i == len(parts)-1 {
			room = uint(8 * (4 - i))
		}
		if err != nil || n >= 1<<room {
			return netip.Addr{}, false
		}
		v = v<<room | n
	}
	return netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)}), true
}

// parseAddr returns the address that host is, if it is one; IPv4-mapped ones
// are not unmapped, since exportfs takes them for other hosts. A zone must be
// an interface of this machine, as for getaddrinfo(3).
func parseAddr(host string) (a netip.Addr, ok bool) {
	a, err := netip.ParseAddr(host)
	if err != nil {
		return a, false
	}
	if z := a.Zone(); z != "" {
		if i, err := strconv.Atoi(z); err == nil {
			if ifi, err := net.InterfaceByIndex(i); err == nil {
				return a.WithZone(ifi.Name), true
			}
			return a, true
		}
		if _, err := net.InterfaceByName(z); err != nil {
			return a, false
		}
	}
	return a, true
}

// resolvable reports whether it makes sense to ask for a name at all.
func resolvable(host string) bool {
	if len(host) > 253 || host == "" {
		return false
	}
	for i := range len(host) {
		c := host[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '.' || c == '_') {
			return false
		}
	}
	last := strings.TrimSuffix(host, ".")
	last = last[strings.LastIndexByte(last, '.')+1:]
	// No top-level domain is a number (RFC 3696 §2): 1.2.3.256 is no name.
	return last != "" && strings.Trim(last, "0123456789") != ""
}

// unprintable reports whether nfs-utils' etab, which does not escape clients,
// could not be read back with this name.
func unprintable(host string) bool {
	return bytes.ContainsFunc([]byte(host), func(r rune) bool { return r <= ' ' || r == 0x7f || r == '"' })
}
