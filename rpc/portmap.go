package rpc

import (
	"fmt"
	"net/netip"

	"sluice/rpc/xdr"
)

// Portmap and rpcbind (RFC 1833), programs 100000 versions 2, 3 and 4, answered
// on the server's own port: whoever asks there is told that everything is there.
// SET and UNSET are refused; this is no registry for others.

const (
	portmapProgram = 100000

	ipprotoTCP = 6
	ipprotoUDP = 17

	maxNetID = 64  // longest netid taken, in bytes
	maxUaddr = 128 // longest universal address taken, in bytes
)

// Mapping is one row of the portmapper's table.
type Mapping struct {
	Program, Version uint32
	Name             string
	Addr             netip.AddrPort
	UDP              bool
}

// netID is the transport's name (RFC 1833 section 2.2; netconfig(5)).
func (m Mapping) netID() string {
	id := "tcp"
	if m.UDP {
		id = "udp"
	}
	if m.Addr.Addr().Is6() {
		id += "6"
	}
	return id
}

func (m Mapping) proto() uint32 {
	if m.UDP {
		return ipprotoUDP
	}
	return ipprotoTCP
}

// uaddr is a universal address: host, then the port's two bytes (RFC 1833
// section 2.1, RFC 5665).
func uaddr(a netip.AddrPort) string {
	return fmt.Sprintf("%s.%d.%d", a.Addr().WithZone(""), a.Port()>>8, a.Port()&0xff)
}

// Mappings lists what a server with these programs answers at its addresses.
func Mappings(programs []Program, tcp, udp []netip.AddrPort) []Mapping {
	var out []Mapping
	for _, p := range programs {
		for _, v := range p.Versions {
			for _, a := range tcp {
				out = append(out, Mapping{p.Number, v.Number, p.Name, a, false})
			}
			for _, a := range udp {
				if p.UDP {
					out = append(out, Mapping{p.Number, v.Number, p.Name, a, true})
				}
			}
		}
	}
	return out
}

// Portmap returns the portmap program. list gives the mappings, its own
// included, once the server listens.
func Portmap(list func() []Mapping) Program {
	p := portmap{list}
	v2 := []Procedure{
		{Name: "NULL", Handle: Null},
		{Name: "SET", Handle: refuseSet, MaxReply: 4},
		{Name: "UNSET", Handle: refuseSet, MaxReply: 4},
		{Name: "GETPORT", Handle: p.getport, MaxReply: 4},
		{Name: "DUMP", Handle: p.dump2, MaxReply: maxDatagram},
	}
	v34 := []Procedure{
		{Name: "NULL", Handle: Null},
		{Name: "SET", Handle: refuseSet, MaxReply: 4},
		{Name: "UNSET", Handle: refuseSet, MaxReply: 4},
		{Name: "GETADDR", Handle: p.getaddr, MaxReply: 4 + maxUaddr},
		{Name: "DUMP", Handle: p.dump34, MaxReply: maxDatagram},
	}
	return Program{Number: portmapProgram, Name: "portmap", UDP: true, Versions: []Version{
		{Number: 2, Procs: v2}, {Number: 3, Procs: v34}, {Number: 4, Procs: v34},
	}}
}

type portmap struct{ list func() []Mapping }

// refuseSet answers FALSE.
func refuseSet(c *Call) Result {
	c.Reply = xdr.AppendBool(c.Reply, false)
	return Done
}

// getport answers with a port, or 0 for what is not served.
func (p portmap) getport(c *Call) Result {
	prog, vers, proto := c.Args.Uint32(), c.Args.Uint32(), c.Args.Uint32()
	c.Args.Uint32() // port: ignored
	if c.Args.Err() != nil {
		return GarbageArgs
	}
	m := p.find(prog, vers, func(m Mapping) bool { return m.proto() == proto })
	c.Reply = xdr.AppendUint32(c.Reply, uint32(m.Addr.Port()))
	return Done
}

// find prefers the version asked for. Any other will do too: the caller then
// learns the right ones from PROG_MISMATCH.
func (p portmap) find(prog, vers uint32, ok func(Mapping) bool) Mapping {
	var found Mapping
	for _, m := range p.list() {
		if m.Program != prog || !ok(m) {
			continue
		}
		if m.Version == vers {
			return m
		}
		found = m
	}
	return found
}

func (p portmap) dump2(c *Call) Result {
	b := c.Reply
	for _, m := range p.list() {
		if m.Addr.Addr().Is6() {
			continue // version 2 knows IPv4 only
		}
		b = xdr.AppendUint32(b, 1)
		b = xdr.AppendUint32(b, m.Program)
		b = xdr.AppendUint32(b, m.Version)
		b = xdr.AppendUint32(b, m.proto())
		b = xdr.AppendUint32(b, uint32(m.Addr.Port()))
	}
	c.Reply = xdr.AppendUint32(b, 0)
	return Done
}

// rpcb is the argument of versions 3 and 4 (RFC 1833 section 2.1).
type rpcb struct {
	prog, vers uint32
	netid      string
}

func parseRpcb(r *xdr.Reader) (a rpcb, ok bool) {
	a.prog, a.vers = r.Uint32(), r.Uint32()
	a.netid = string(r.Opaque(maxNetID))
	r.Opaque(maxUaddr) // the caller's hint of which address it used
	r.Opaque(maxNetID) // owner
	return a, r.Err() == nil
}

// getaddr answers with a universal address, or an empty one for what is not
// served. Where the server listens on all addresses it says so; clients of
// rpcbind take the port and keep the host they asked.
func (p portmap) getaddr(c *Call) Result {
	a, ok := parseRpcb(&c.Args)
	if !ok {
		return GarbageArgs
	}
	if a.netid == "" {
		a.netid = "tcp"
		if c.UDP {
			a.netid = "udp"
		}
	}
	m := p.find(a.prog, a.vers, func(m Mapping) bool { return m.netID() == a.netid })
	addr := ""
	if m.Program != 0 {
		addr = uaddr(m.Addr)
	}
	c.Reply = xdr.AppendString(c.Reply, addr)
	return Done
}

func (p portmap) dump34(c *Call) Result {
	b := c.Reply
	for _, m := range p.list() {
		b = xdr.AppendUint32(b, 1)
		b = xdr.AppendUint32(b, m.Program)
		b = xdr.AppendUint32(b, m.Version)
		b = xdr.AppendString(b, m.netID())
		b = xdr.AppendString(b, uaddr(m.Addr))
		b = xdr.AppendString(b, "superuser")
	}
	c.Reply = xdr.AppendUint32(b, 0)
	return Done
}
