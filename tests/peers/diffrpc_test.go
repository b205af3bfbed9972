package peers

import (
	"fmt"
	"strings"
)

// rpcCases are about the RPC layer: versions, programs, procedures,
// credentials and arguments that end too early.
func rpcCases() []diffCase {
	cases := append(programCases(), credentialCases()...)
	for proc := uint32(1); proc <= 21; proc++ {
		cases = append(cases,
			diffCase{procedures[proc].name + " without arguments", func(s *side) string { return s.ask(proc, rootCred, nil) }},
			diffCase{procedures[proc].name + " with its last 4 bytes missing", func(s *side) string {
				args := handleArgs(proc, s.fh("f5"))
				return s.ask(proc, rootCred, args[:len(args)-4])
			}},
			diffCase{procedures[proc].name + " of a handle whose length says 4 GiB", func(s *side) string {
				args := handleArgs(proc, s.fh("f5"))
				copy(args, "\xff\xff\xff\xff")
				return s.ask(proc, rootCred, args)
			}})
	}
	return append(cases,
		diffCase{"LOOKUP of a name whose length says 4 GiB", func(s *side) string {
			return s.ask(3, rootCred, new(enc).opaque(s.fh("")).u32(1<<32-1).u32(0).b)
		}},
		diffCase{"GETATTR with bytes after its arguments", func(s *side) string {
			return s.ask(1, rootCred, new(enc).opaque(s.fh("f5")).u32(1, 2, 3).b)
		}},
		diffCase{"MNT without arguments", func(s *side) string {
			return s.render(s.mount, progMount, 3, 1, rootCred, nil, okMount, nothing)
		}})
}

// void is the answer to a NULL call.
func (s *side) void(addr string, prog, vers, proc uint32, c cred) string {
	r, err := s.call(addr, prog, vers, proc, c, nil)
	if err != nil {
		return noReply(err)
	}
	if r.denied || r.accept != 0 {
		return renderRPC(r)
	}
	return fmt.Sprintf("done, %d bytes", len(r.body))
}

func programCases() []diffCase {
	var cases []diffCase
	for _, p := range []struct {
		name             string
		prog, vers, proc uint32
	}{
		{"NFS NULL", progNFS, 3, 0}, {"NFS version 0", progNFS, 0, 0}, {"NFS version 2", progNFS, 2, 0}, {"NFS version 4", progNFS, 4, 0}, {"NFS version 4 COMPOUND", progNFS, 4, 1},
		{"NFS version 5", progNFS, 5, 0}, {"NFS procedure 22", progNFS, 3, 22}, {"NFS procedure 4294967295", progNFS, 3, 1<<32 - 1},
		{"NFSACL", 100227, 3, 0}, {"NLM", 100021, 4, 0}, {"program 0", 0, 1, 0}, {"program 300000", 300000, 1, 0},
	} {
		cases = append(cases, diffCase{p.name, func(s *side) string { return s.void(s.nfs, p.prog, p.vers, p.proc, rootCred) }})
	}
	for vers := range uint32(5) {
		cases = append(cases, diffCase{fmt.Sprintf("MOUNT version %d NULL", vers), func(s *side) string { return s.void(s.mount, progMount, vers, 0, rootCred) }})
	}
	cases = append(cases, diffCase{"MOUNT procedure 7", func(s *side) string { return s.void(s.mount, progMount, 3, 7, rootCred) }})
	return cases
}

func credentialCases() []diffCase {
	groups := func(n int) []uint32 {
		g := make([]uint32, n)
		for i := range g {
			g[i] = uint32(6000 + i)
		}
		return g
	}
	named := func(machine string) cred { return cred{1, new(enc).u32(1).str(machine).u32(0, 0, 0).b} }
	var cases []diffCase
	for _, c := range []struct {
		name string
		cred cred
	}{
		{"AUTH_NONE", noCred},
		{"AUTH_NONE with a body", cred{0, []byte{1, 2, 3, 4}}},
		{"AUTH_SHORT", cred{2, []byte{1, 2, 3, 4}}},
		{"AUTH_DH", cred{3, []byte{1, 2, 3, 4}}},
		{"RPCSEC_GSS", cred{6, new(enc).u32(1, 1, 0, 1).str("").b}},
		{"flavour 99", cred{99, nil}},
		{"16 groups", sys(0, 0, groups(16)...)},
		{"17 groups", sys(0, 0, groups(17)...)},
		{"a machine name of 255 bytes", named(strings.Repeat("m", 255))},
		{"a machine name of 256 bytes", named(strings.Repeat("m", 256))},
		{"an empty AUTH_SYS body", cred{1, nil}},
		{"an AUTH_SYS body that ends early", cred{1, sys(0, 0).body[:12]}},
		{"bytes after the AUTH_SYS body", cred{1, append(sys(0, 0).body, 0, 0, 0, 0)}},
		{"a credential of 400 bytes", cred{0, make([]byte, 400)}},
		{"a credential of 404 bytes", cred{0, make([]byte, 404)}},
	} {
		cases = append(cases,
			diffCase{"NULL with " + c.name, func(s *side) string { return s.void(s.nfs, progNFS, 3, 0, c.cred) }},
			diffCase{"GETATTR with " + c.name, func(s *side) string { return s.ask(1, c.cred, new(enc).opaque(s.fh("f5")).b) }})
	}
	return append(cases,
		diffCase{"RPC version 3", func(s *side) string { return s.header(3, 0, nil) }},
		diffCase{"RPC version 1", func(s *side) string { return s.header(1, 0, nil) }},
		diffCase{"a verifier of flavour 1", func(s *side) string { return s.header(2, 1, nil) }},
		diffCase{"an AUTH_NONE verifier with a body", func(s *side) string { return s.header(2, 0, []byte{1, 2, 3, 4}) }},
		diffCase{"a verifier of 404 bytes", func(s *side) string { return s.header(2, 0, make([]byte, 404)) }})
}

// header asks GETATTR of the root with a header of its own.
func (s *side) header(rpcvers, verfFlavor uint32, verf []byte) string {
	conn, err := s.ns.Dial("tcp", s.nfs)
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	c := &wireClient{conn: conn, xid: 9}
	e := new(enc).u32(0, c.xid, 0, rpcvers, progNFS, 3, 1, rootCred.flavor).opaque(rootCred.body).u32(verfFlavor).opaque(verf).opaque(s.fh(""))
	r, err := c.exchange(e.b)
	if err != nil {
		return noReply(err)
	}
	if r.denied || r.accept != 0 {
		return renderRPC(r)
	}
	return s.results(r.body, procedures[1].ok, nothing)
}
