package export

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"path"
	"strings"
)

// Reason is how one entry fared for a client.
type Reason struct {
	Entry   *Entry
	Matches bool
	Why     string // e.g. "10.1.2.3 is in 10.0.0.0/8"
}

// Step is one exported path on the way up from what a client asked for.
type Step struct {
	Export  *Export
	Reasons []Reason // in the order of precedence
	Chosen  *Entry   // nil if none matches
}

// Explanation is why a client gets what it gets at a path.
type Explanation struct {
	Path  string
	Addr  netip.Addr
	Names []string // confirmed names, if they matter
	Steps []Step
	// Export and Entry hold for the client; nil if it gets nothing.
	Export *Export
	Entry  *Entry
}

// Why explains which entry holds for addr at p, a canonical path, and why the
// others do not.
func (m *Matcher) Why(ctx context.Context, p string, addr netip.Addr) Explanation {
	x := Explanation{Path: p, Addr: addr.Unmap()}
	if !strings.HasPrefix(p, "/") || !addr.IsValid() {
		return x
	}
	p = path.Clean(p)
	for x.Entry == nil {
		if e := m.t.byPath[p]; e != nil {
			s := m.step(ctx, e, &x)
			x.Steps = append(x.Steps, s)
			if s.Chosen != nil {
				x.Export, x.Entry = e, s.Chosen
			}
		}
		if p == "/" {
			break
		}
		p = path.Dir(p)
	}
	return x
}

func (m *Matcher) step(ctx context.Context, e *Export, x *Explanation) Step {
	s := Step{Export: e, Chosen: m.MatchWait(ctx, e, x.Addr)}
	if len(e.index.byName) > 0 && x.Names == nil {
		x.Names, _ = m.c.names.get(ctx, x.Addr)
	}
	for kind := range numKinds {
		for _, entry := range e.Entries {
			if entry.Client.Kind == kind {
				s.Reasons = append(s.Reasons, m.reason(ctx, entry, x))
			}
		}
	}
	return s
}

// reason says whether an entry by itself matches, and why.
func (m *Matcher) reason(ctx context.Context, e *Entry, x *Explanation) Reason {
	c, r := &e.Client, Reason{Entry: e}
	switch c.Kind {
	case Host:
		for _, a := range c.Addrs {
			r.Matches = r.Matches || a == x.Addr
		}
		list := strings.Trim(strings.Join(strings.Fields(fmt.Sprint(c.Addrs)), ", "), "[]")
		r.Why = fmt.Sprintf("%s %s %s", x.Addr, is(r.Matches, "is", "is not"), c.Name)
		if list != c.Name {
			r.Why += " (" + list + ")"
		}
	case Network:
		k, is4 := keyOf(x.Addr)
		r.Matches = is4 == c.network.is4 && k.and(c.network.mask) == c.network.base
		r.Why = fmt.Sprintf("%s %s in %s", x.Addr, is(r.Matches, "is", "is not"), c.Name)
	case Wildcard:
		for _, n := range x.Names {
			r.Matches = r.Matches || wildmat(n, c.Name)
		}
		r.Why = fmt.Sprintf("%s %s %s", known(x), is(r.Matches, "matches", "does not match"), c.Name)
	case Netgroup:
		g, _ := m.c.groups.get(ctx, c.Name[1:])
		r.Matches = g.has(x.Names, x.Addr)
		r.Why = fmt.Sprintf("%s %s in netgroup %s", known(x), is(r.Matches, "is", "is not"), c.Name[1:])
	case Anonymous:
		r.Matches, r.Why = true, "it is for everyone"
	case GSS:
		r.Why = "RPCSEC_GSS is not served here"
	}
	return r
}

func is(b bool, yes, no string) string {
	if b {
		return yes
	}
	return no
}

// known is a client as wildcards and netgroups see it.
func known(x *Explanation) string {
	if len(x.Names) == 0 {
		return x.Addr.String() + ", which has no confirmed host name,"
	}
	return strings.Join(x.Names, ", ")
}

// Format prints the explanation.
func (x Explanation) Format(w io.Writer) error {
	var b strings.Builder
	if len(x.Steps) == 0 {
		fmt.Fprintf(&b, "no export is at or above %s\n", printable(x.Path))
	}
	for _, s := range x.Steps {
		fmt.Fprintf(&b, "%s\n", printable(s.Export.Path))
		for _, r := range s.Reasons {
			mark := "-"
			switch {
			case r.Entry == s.Chosen:
				mark = ">"
			case r.Matches:
				mark = "+" // it would, but another one goes before it
			}
			fmt.Fprintf(&b, "  %s %-8s %s: %s\n", mark, r.Entry.Client.Kind, r.Entry.Pos, printable(r.Why))
		}
	}
	if x.Entry == nil {
		fmt.Fprintf(&b, "%s gets no access to %s\n", x.Addr, printable(x.Path))
	} else {
		fmt.Fprintf(&b, "%s gets %s by %s, %s:\n  %s\n", x.Addr, printable(x.Export.Path),
			printable(x.Entry.Client.String()), x.Entry.Pos, printable(x.Entry.EtabLine()))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
