package export

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// Resolver asks the name service. Its methods may take their time; nothing
// here calls them where a server thread would wait.
type Resolver interface {
	// LookupHost returns the canonical name and the addresses of a host.
	LookupHost(ctx context.Context, name string) (canonical string, addrs []netip.Addr, err error)
	// LookupAddr returns the names of an address, unconfirmed.
	LookupAddr(ctx context.Context, addr netip.Addr) (names []string, err error)
	// LookupNetgroup returns the host parts of a netgroup's members, nested
	// groups included; empty ones may be among them.
	LookupNetgroup(ctx context.Context, group string) (hosts []string, err error)
}

// SystemResolver asks as this machine is configured: /etc/hosts and DNS by way
// of package net, netgroups through the name service switch by getent(1),
// which needs no cgo.
func SystemResolver() Resolver { return systemResolver{} }

type systemResolver struct{}

func (systemResolver) LookupHost(ctx context.Context, name string) (string, []netip.Addr, error) {
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
	if err != nil {
		return "", nil, err
	}
	for i, a := range addrs {
		addrs[i] = a.Unmap()
	}
	canonical, err := net.DefaultResolver.LookupCNAME(ctx, name)
	if err != nil {
		canonical = name // it has addresses: its own name will do
	}
	return strings.TrimSuffix(canonical, "."), addrs, nil
}

func (systemResolver) LookupAddr(ctx context.Context, addr netip.Addr) ([]string, error) {
	names, err := net.DefaultResolver.LookupAddr(ctx, addr.String())
	for i, n := range names {
		names[i] = strings.TrimSuffix(n, ".")
	}
	return names, err
}

func (systemResolver) LookupNetgroup(ctx context.Context, group string) ([]string, error) {
	cmd := exec.CommandContext(ctx, "getent", "netgroup", "--", group)
	cmd.WaitDelay = time.Second
	var out limitedBuffer
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("getent netgroup %s: %w", group, err)
	}
	return parseNetgroup(out.String())
}

// limitedBuffer fails a write that would make it larger than
// maxNetgroupBytes.
type limitedBuffer struct{ bytes.Buffer }

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxNetgroupBytes {
		return 0, fmt.Errorf("netgroup of more than %d bytes", maxNetgroupBytes)
	}
	return b.Buffer.Write(p)
}

// parseNetgroup reads what getent netgroup prints: the group and its members
// as (host,user,domain).
func parseNetgroup(s string) (hosts []string, err error) {
	for {
		open := strings.IndexByte(s, '(')
		if open < 0 {
			return hosts, nil
		}
		end := strings.IndexByte(s[open:], ')')
		if end < 0 {
			return nil, fmt.Errorf("unexpected output of getent: %q", s[:min(len(s), 80)])
		}
		host, _, _ := strings.Cut(s[open+1:open+end], ",")
		hosts = append(hosts, strings.TrimSpace(host))
		s = s[open+end+1:]
	}
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// isDNSNotFound reports whether package net says that a name does not exist.
func isDNSNotFound(err error) bool {
	var d *net.DNSError
	if errors.As(err, &d) {
		return d.IsNotFound
	}
	// getent(1) exits with 2 if the key is not there.
	var x *exec.ExitError
	return errors.As(err, &x) && x.ExitCode() == 2
}
