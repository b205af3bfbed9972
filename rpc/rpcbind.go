package rpc

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"strconv"
	"strings"

	"sluice/rpc/xdr"
)

// rpcbindSocket is where a local rpcbind listens for programs that register; it
// trusts the uid that the kernel tells (rpcbind(8)).
var rpcbindSocket = "/run/rpcbind.sock"

// Procedures of rpcbind version 4 (RFC 1833 section 2.2).
const (
	rpcbSet   = 1
	rpcbUnset = 2
	rpcbDump  = 4

	rpcbVersion = 4
)

// Registration is what this process has registered with the local rpcbind.
type Registration struct {
	log  *slog.Logger
	mine []Mapping
}

// Register tells the local rpcbind of the mappings. No rpcbind is no error. A
// mapping that another server holds and answers at is left alone; one whose
// server has gone is replaced.
func Register(ctx context.Context, mappings []Mapping, log *slog.Logger) *Registration {
	r := &Registration{log: log}
	c, err := dial(ctx, "unix", rpcbindSocket)
	if err != nil {
		log.Debug("no rpcbind to register with", "error", err)
		return r
	}
	defer c.close()
	known, err := dumpRpcbind(c)
	if err != nil {
		log.Warn("rpcbind does not list its table; nothing registered", "error", err)
		return r
	}
	for _, m := range mappings {
		if m.Program == portmapProgram {
			continue // that is rpcbind itself
		}
		if err := r.register(ctx, c, m, known); err != nil {
			log.Warn("not registered with rpcbind", "program", m.Name, "version", m.Version, "netid", m.netID(), "error", err)
			continue
		}
		r.mine = append(r.mine, m)
	}
	if len(r.mine) > 0 {
		log.Info("registered with rpcbind", "mappings", len(r.mine))
	}
	return r
}

func (r *Registration) register(ctx context.Context, c *client, m Mapping, known map[string]string) error {
	switch addr := known[key(m)]; {
	case addr == uaddr(m.Addr):
		return nil
	case addr != "" && answers(ctx, m, addr):
		return fmt.Errorf("another server answers at %s", addr)
	case addr != "":
		if _, err := callBool(c, rpcbUnset, m); err != nil {
			return err
		}
	}
	ok, err := callBool(c, rpcbSet, m)
	if err == nil && !ok {
		err = fmt.Errorf("rpcbind refused")
	}
	return err
}

// Unregister takes back what Register did, unless someone else has replaced it.
func (r *Registration) Unregister(ctx context.Context) {
	if len(r.mine) == 0 {
		return
	}
	c, err := dial(ctx, "unix", rpcbindSocket)
	if err != nil {
		return // rpcbind has gone, and its table with it
	}
	defer c.close()
	known, err := dumpRpcbind(c)
	if err != nil {
		return
	}
	for _, m := range r.mine {
		if known[key(m)] != uaddr(m.Addr) {
			continue
		}
		if _, err := callBool(c, rpcbUnset, m); err != nil {
			r.log.Warn("still registered with rpcbind", "program", m.Name, "version", m.Version, "error", err)
		}
	}
	r.mine = nil
}

func key(m Mapping) string { return fmt.Sprint(m.Program, " ", m.Version, " ", m.netID()) }

// dumpRpcbind returns the universal address for each program, version and netid.
func dumpRpcbind(c *client) (map[string]string, error) {
	b, err := c.call(portmapProgram, rpcbVersion, rpcbDump, nil)
	if err != nil {
		return nil, err
	}
	known := make(map[string]string)
	for r := xdr.NewReader(b); r.Bool(); {
		prog, vers := r.Uint32(), r.Uint32()
		netid, addr := r.Opaque(maxNetID), r.Opaque(maxUaddr)
		r.Opaque(maxNetID) // owner
		if r.Err() != nil {
			return nil, r.Err()
		}
		known[fmt.Sprint(prog, " ", vers, " ", string(netid))] = string(addr)
	}
	return known, nil
}

func callBool(c *client, proc uint32, m Mapping) (bool, error) {
	b := xdr.AppendUint32(nil, m.Program)
	b = xdr.AppendUint32(b, m.Version)
	b = xdr.AppendString(b, m.netID())
	b = xdr.AppendString(b, uaddr(m.Addr))
	b = xdr.AppendString(b, "superuser")
	res, err := c.call(portmapProgram, rpcbVersion, proc, b)
	if err != nil {
		return false, err
	}
	r := xdr.NewReader(res)
	return r.Bool(), r.Err()
}

// answers says whether a live server is behind a registered address. UDP
// mappings are judged by the same port over TCP, where every server of NFS and
// MOUNT listens too.
func answers(ctx context.Context, m Mapping, universal string) bool {
	addr, ok := parseUaddr(universal)
	if !ok {
		return false
	}
	if addr.Addr().IsUnspecified() {
		loop := netip.AddrFrom4([4]byte{127, 0, 0, 1})
		if addr.Addr().Is6() {
			loop = netip.IPv6Loopback()
		}
		addr = netip.AddrPortFrom(loop, addr.Port())
	}
	c, err := dial(ctx, "tcp", addr.String())
	if err != nil {
		return false
	}
	defer c.close()
	_, err = c.call(m.Program, m.Version, 0, nil)
	return err == nil
}

// parseUaddr reads a universal address.
func parseUaddr(s string) (netip.AddrPort, bool) {
	i := strings.LastIndexByte(s, '.')
	if i < 0 {
		return netip.AddrPort{}, false
	}
	j := strings.LastIndexByte(s[:i], '.')
	if j < 0 {
		return netip.AddrPort{}, false
	}
	addr, err1 := netip.ParseAddr(s[:j])
	hi, err2 := strconv.ParseUint(s[j+1:i], 10, 8)
	lo, err3 := strconv.ParseUint(s[i+1:], 10, 8)
	if err1 != nil || err2 != nil || err3 != nil {
		return netip.AddrPort{}, false
	}
	return netip.AddrPortFrom(addr, uint16(hi<<8|lo)), true
}
