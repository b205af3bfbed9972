package peers

import (
	"bytes"
	"fmt"
	"os"
	"strings"
)

var (
	aliceCred = sys(1001, 1001)
	bobCred   = sys(1002, 1002)
)

func diffCases() []diffCase {
	var cases []diffCase
	for _, more := range [][]diffCase{attrCases(), lookupCases(), accessCases(), readCases(), dirCases(), modifyCases(), handleCases(), mountCases(), rpcCases()} {
		cases = append(cases, more...)
	}
	return cases
}

// onFile asks a procedure whose only argument is a handle.
func onFile(proc uint32, c cred, who, path string) diffCase {
	name := fmt.Sprintf("%s %s%s", procedures[proc].name, show(path), who)
	return diffCase{name, func(s *side) string { return s.ask(proc, c, new(enc).opaque(s.fh(path)).b) }}
}

func show(path string) string {
	if path == "" {
		return "/"
	}
	return fmt.Sprintf("%.20q", path)
}

// kinds is a path of every type.
var kinds = []string{"", "dir", "f5", "link", "dangling", "fifo", "char"}

func attrCases() []diffCase {
	var cases []diffCase
	for _, path := range append(kinds, "alice-0000", "huge", "dir/hard", "dir/\xff odd") {
		cases = append(cases, onFile(1, rootCred, "", path))
	}
	cases = append(cases, onFile(1, bobCred, " as bob", "shut-0700/in"), onFile(1, noCred, " with AUTH_NONE", "f5"))
	for _, proc := range []uint32{18, 19, 20} {
		for _, path := range []string{"", "f5", "link"} {
			cases = append(cases, onFile(proc, rootCred, "", path))
		}
		cases = append(cases, onFile(proc, bobCred, " as bob", "shut-0700/in"), onFile(proc, noCred, " with AUTH_NONE", ""))
	}
	for _, path := range kinds {
		cases = append(cases, onFile(5, rootCred, "", path))
	}
	return append(cases, onFile(5, bobCred, " as bob", "link"))
}

func lookupCases() []diffCase {
	lookup := func(c cred, who, dir, name string) diffCase {
		return diffCase{fmt.Sprintf("LOOKUP %.20q in %s%s", name, show(dir), who), func(s *side) string {
			return s.ask(3, c, new(enc).opaque(s.fh(dir)).str(name).b)
		}}
	}
	var cases []diffCase
	for _, name := range []string{"f5", ".", "..", "dir", "link", "fifo", "char", "missing", "", "a/b", "/", "f5\x00x", "F5",
		strings.Repeat("n", 255), strings.Repeat("m", 256), strings.Repeat("l", 1000), strings.Repeat("k", 5000), "\xff\xfe"} {
		cases = append(cases, lookup(rootCred, "", "", name))
	}
	return append(cases,
		lookup(rootCred, "", "dir", "."), lookup(rootCred, "", "dir", ".."), lookup(rootCred, "", "dir/sub", ".."), lookup(rootCred, "", "dir", "\xff odd"),
		lookup(rootCred, "", "f5", "x"), lookup(rootCred, "", "f5", "."), lookup(rootCred, "", "f5", ".."), lookup(rootCred, "", "link", "x"), lookup(rootCred, "", "fifo", "x"),
		lookup(bobCred, " as bob", "open-0711", "in"), lookup(bobCred, " as bob", "shut-0700", "in"), lookup(bobCred, " as bob", "shut-0700", "missing"),
		lookup(bobCred, " as bob", "shut-0700", "."), lookup(bobCred, " as bob", "shut-0700", ".."), lookup(bobCred, " as bob", "", "shut-0700"),
		lookup(noCred, " with AUTH_NONE", "", "f5"))
}

func accessCases() []diffCase {
	var cases []diffCase
	for _, u := range []struct {
		name string
		cred cred
	}{{"root", rootCred}, {"alice", aliceCred}, {"bob", bobCred}, {"nobody", sys(65534, 65534)}} {
		for _, path := range []string{"", "dir", "open-0711", "shut-0700", "f5", "alice-0600", "alice-0000", "exec-0711", "link", "fifo", "char"} {
			for _, bits := range []uint32{0x3f, 0xffffffff, 0x01} {
				name := fmt.Sprintf("ACCESS %#x of %s as %s", bits, show(path), u.name)
				cases = append(cases, diffCase{name, func(s *side) string { return s.ask(4, u.cred, new(enc).opaque(s.fh(path)).u32(bits).b) }})
			}
		}
	}
	return append(cases, diffCase{"ACCESS 0 of \"f5\" as root", func(s *side) string { return s.ask(4, rootCred, new(enc).opaque(s.fh("f5")).u32(0).b) }})
}

func readCases() []diffCase {
	read := func(c cred, who, path string, offset uint64, count uint32) diffCase {
		return diffCase{fmt.Sprintf("READ %s at %#x, %d%s", show(path), offset, count, who), func(s *side) string {
			args := new(enc).opaque(s.fh(path)).u64(offset).u32(count)
			return s.render(s.nfs, progNFS, 3, 6, c, args.b, okRead(path, offset), procedures[6].fail)
		}}
	}
	var cases []diffCase
	for _, at := range []struct {
		path   string
		offset uint64
		count  uint32
	}{
		{"f0", 0, 0}, {"f0", 0, 1}, {"f0", 1, 1},
		{"f5", 0, 0}, {"f5", 0, 3}, {"f5", 0, 4}, {"f5", 0, 5}, {"f5", 0, 6}, {"f5", 2, 2}, {"f5", 2, 3}, {"f5", 4, 1}, {"f5", 4, 9},
		{"f5", 5, 0}, {"f5", 5, 1}, {"f5", 6, 0}, {"f5", 6, 1}, {"f5", 1 << 40, 1}, {"f5", 1<<63 - 1, 1}, {"f5", 1<<63 - 1, 2}, {"f5", 1 << 63, 1},
		{"f5", 1<<64 - 1, 0}, {"f5", 1<<64 - 1, 1}, {"f5", 1<<64 - 1, 1 << 20}, {"f5", 0, 1<<32 - 1},
		{"f4096", 0, 4095}, {"f4096", 0, 4096}, {"f4096", 0, 4097}, {"f4096", 4095, 1}, {"f4096", 4096, 1},
		{"f1m1", 0, 1 << 20}, {"f1m1", 0, 1<<20 + 1}, {"f1m1", 1, 1 << 20}, {"f1m1", 1 << 20, 1}, {"f1m1", 65536, 65536}, {"f1m1", 0, 8 << 20},
		{"huge", 1 << 33, 4096}, {"huge", 1<<40 - 1, 1}, {"huge", 1<<40 - 1, 2}, {"huge", 1 << 40, 1},
		{"", 0, 10}, {"dir", 0, 0}, {"link", 0, 10}, {"fifo", 0, 10}, {"char", 0, 10}, {"fifo", 0, 0},
	} {
		cases = append(cases, read(rootCred, "", at.path, at.offset, at.count))
	}
	return append(cases,
		read(bobCred, " as bob", "f5", 0, 5), read(bobCred, " as bob", "alice-0600", 0, 5), read(bobCred, " as bob", "alice-0600", 0, 0),
		read(bobCred, " as bob", "exec-0711", 0, 8), read(bobCred, " as bob", "shut-0700/in", 0, 5),
		read(aliceCred, " as alice", "alice-0600", 0, 6), read(aliceCred, " as alice", "alice-0000", 0, 7), read(rootCred, "", "alice-0000", 0, 7),
		read(noCred, " with AUTH_NONE", "f5", 0, 5))
}

func dirCases() []diffCase {
	var cases []diffCase
	add := func(name string, ask func(*side) string) { cases = append(cases, diffCase{name, ask}) }
	for _, plus := range []bool{false, true} {
		proc := map[bool]uint32{false: 16, true: 17}[plus]
		name := procedures[proc].name
		for _, dir := range []string{"", "dir", "dir/sub", "empty", "big", "f5", "link", "fifo"} {
			for _, size := range []uint32{512, 4096, 1 << 20} {
				add(fmt.Sprintf("%s all of %s by %d", name, show(dir), size), func(s *side) string { return s.list(plus, rootCred, dir, size) })
			}
		}
		add(name+" shut-0700 as bob", func(s *side) string { return s.list(plus, bobCred, "shut-0700", 4096) })
		add(name+" open-0711 as bob", func(s *side) string { return s.list(plus, bobCred, "open-0711", 4096) })
		for _, at := range []struct{ cookie, verf uint64 }{{1<<63 - 1, 0}, {1<<64 - 1, 0}, {0, 12345}} {
			add(fmt.Sprintf("%s / from cookie %#x, verifier %d", name, at.cookie, at.verf), func(s *side) string {
				args := new(enc).opaque(s.fh("")).u64(at.cookie, at.verf).u32(4096)
				if plus {
					args.u32(4096)
				}
				return s.ask(proc, rootCred, args.b)
			})
		}
		for _, size := range []uint32{0, 1, 64, 100, 1<<32 - 1} {
			add(fmt.Sprintf("%s / with count %d", name, size), func(s *side) string {
				args := new(enc).opaque(s.fh("")).u64(0, 0).u32(size)
				if plus {
					args.u32(size)
				}
				return s.ask(proc, rootCred, args.b)
			})
		}
	}
	add("READDIRPLUS / with dircount 0", func(s *side) string {
		return s.ask(17, rootCred, new(enc).opaque(s.fh("")).u64(0, 0).u32(0, 8192).b)
	})
	return cases
}

// modifyCases are valid calls of every procedure that changes something.
func modifyCases() []diffCase {
	noAttrs := []uint32{0, 0, 0, 0, 0, 0} // sattr3 that sets nothing
	calls := []struct {
		name string
		proc uint32
		args func(s *side) *enc
	}{
		{"mode", 2, func(s *side) *enc { return new(enc).opaque(s.fh("f5")).u32(1, 0o600, 0, 0, 0, 0, 0, 0) }},
		{"nothing", 2, func(s *side) *enc { return new(enc).opaque(s.fh("f5")).u32(noAttrs...).u32(0) }},
		{"size, with a guard that fails", 2, func(s *side) *enc { return new(enc).opaque(s.fh("f5")).u32(0, 0, 0, 1, 0, 0, 0, 0, 1, 1, 1) }},
		{"of a directory", 2, func(s *side) *enc { return new(enc).opaque(s.fh("dir")).u32(1, 0o700, 0, 0, 0, 0, 0, 0) }},
		{"3 bytes", 7, func(s *side) *enc { return new(enc).opaque(s.fh("f5")).u64(0).u32(3, 2).str("abc") }},
		{"0 bytes", 7, func(s *side) *enc { return new(enc).opaque(s.fh("f5")).u64(0).u32(0, 2).str("") }},
		{"to a directory", 7, func(s *side) *enc { return new(enc).opaque(s.fh("dir")).u64(0).u32(3, 2).str("abc") }},
		{"unchecked", 8, func(s *side) *enc { return new(enc).opaque(s.fh("")).str("new").u32(0).u32(noAttrs...) }},
		{"guarded, exists", 8, func(s *side) *enc { return new(enc).opaque(s.fh("")).str("f5").u32(1).u32(noAttrs...) }},
		{"exclusive", 8, func(s *side) *enc { return new(enc).opaque(s.fh("")).str("new").u32(2).u64(77) }},
		{"in a file", 8, func(s *side) *enc { return new(enc).opaque(s.fh("f5")).str("new").u32(0).u32(noAttrs...) }},
		{"new", 9, func(s *side) *enc { return new(enc).opaque(s.fh("")).str("new").u32(noAttrs...) }},
		{"new", 10, func(s *side) *enc { return new(enc).opaque(s.fh("")).str("new").u32(noAttrs...).str("f5") }},
		{"FIFO", 11, func(s *side) *enc { return new(enc).opaque(s.fh("")).str("new").u32(7).u32(noAttrs...) }},
		{"device", 11, func(s *side) *enc { return new(enc).opaque(s.fh("")).str("new").u32(4).u32(noAttrs...).u32(1, 3) }},
		{"file", 12, func(s *side) *enc { return new(enc).opaque(s.fh("")).str("f5") }},
		{"missing", 12, func(s *side) *enc { return new(enc).opaque(s.fh("")).str("missing") }},
		{"empty", 13, func(s *side) *enc { return new(enc).opaque(s.fh("")).str("empty") }},
		{".", 13, func(s *side) *enc { return new(enc).opaque(s.fh("")).str(".") }},
		{"file", 14, func(s *side) *enc { return new(enc).opaque(s.fh("")).str("f5").opaque(s.fh("dir")).str("new") }},
		{"file", 15, func(s *side) *enc { return new(enc).opaque(s.fh("f5")).opaque(s.fh("dir")).str("new") }},
		{"directory", 15, func(s *side) *enc { return new(enc).opaque(s.fh("empty")).opaque(s.fh("dir")).str("new") }},
		{"whole file", 21, func(s *side) *enc { return new(enc).opaque(s.fh("f5")).u64(0).u32(0) }},
		{"directory", 21, func(s *side) *enc { return new(enc).opaque(s.fh("dir")).u64(0).u32(0) }},
	}
	var cases []diffCase
	for _, c := range calls {
		name := procedures[c.proc].name + " " + c.name
		cases = append(cases,
			diffCase{name + " as root", func(s *side) string { return s.ask(c.proc, rootCred, c.args(s).b) }},
			diffCase{name + " as bob", func(s *side) string { return s.ask(c.proc, bobCred, c.args(s).b) }})
	}
	return cases
}

// handleArgs are the arguments of each procedure, for a given handle and
// valid but for that.
func handleArgs(proc uint32, fh []byte) []byte {
	e := new(enc).opaque(fh)
	switch proc {
	case 2:
		e.u32(0, 0, 0, 0, 0, 0, 0)
	case 3, 12, 13:
		e.str("x")
	case 4:
		e.u32(1)
	case 6, 21:
		e.u64(0).u32(1)
	case 7:
		e.u64(0).u32(1, 2).str("x")
	case 8, 9, 10, 11:
		e.str("x")
		if proc == 8 || proc == 11 {
			e.u32(map[uint32]uint32{8: 0, 11: 7}[proc])
		}
		e.u32(0, 0, 0, 0, 0, 0)
		if proc == 10 {
			e.str("x")
		}
	case 14:
		e.str("x").opaque(fh).str("y")
	case 15:
		e.opaque(fh).str("y")
	case 16:
		e.u64(0, 0).u32(4096)
	case 17:
		e.u64(0, 0).u32(4096, 4096)
	}
	return e.b
}

func handleCases() []diffCase {
	var cases []diffCase
	bad := []struct {
		name string
		make func(good []byte) []byte
	}{
		{"empty", func([]byte) []byte { return nil }},
		{"of one byte", func([]byte) []byte { return []byte{1} }},
		{"of 64 bytes 0xaa", func([]byte) []byte { return bytes.Repeat([]byte{0xaa}, 64) }},
		{"of 65 bytes", func([]byte) []byte { return bytes.Repeat([]byte{0xaa}, 65) }},
		{"cut short by 4 bytes", func(good []byte) []byte { return good[:len(good)-4] }},
		{"with the last bit flipped", func(good []byte) []byte {
			b := bytes.Clone(good)
			b[len(b)-1] ^= 1
			return b
		}},
	}
	for proc := uint32(1); proc <= 21; proc++ {
		for _, h := range bad {
			cases = append(cases, diffCase{fmt.Sprintf("%s of a handle %s", procedures[proc].name, h.name), func(s *side) string {
				return s.ask(proc, rootCred, handleArgs(proc, h.make(s.fh("f5"))))
			}})
		}
	}
	return append(cases, diffCase{"GETATTR of a file deleted since", askDeleted})
}

// askDeleted makes a file, looks it up, deletes it and asks for it.
func askDeleted(s *side) string {
	must(s.t, os.WriteFile(s.abs("short-lived"), nil, 0o644))
	fh := s.fh("short-lived")
	must(s.t, os.Remove(s.abs("short-lived")))
	return s.ask(1, rootCred, new(enc).opaque(fh).b)
}

// mountCases: what MNT makes of paths, and the other MOUNT procedures.
func mountCases() []diffCase {
	var cases []diffCase
	for _, m := range []struct {
		name string
		path func(root string) string
	}{
		{"the export", func(r string) string { return r }},
		{"with a slash at its end", func(r string) string { return r + "/" }},
		{"with double slashes", func(r string) string { return strings.ReplaceAll(r, "/", "//") }},
		{"a directory below", func(r string) string { return r + "/dir/sub" }},
		{"below, through ..", func(r string) string { return r + "/dir/../dir" }},
		{"below, through .", func(r string) string { return r + "/./dir" }},
		{"above, through ..", func(r string) string { return r + "/.." }},
		{"a file", func(r string) string { return r + "/f5" }},
		{"a link to a file", func(r string) string { return r + "/link" }},
		{"a FIFO", func(r string) string { return r + "/fifo" }},
		{"missing", func(r string) string { return r + "/missing" }},
		{"below a file", func(r string) string { return r + "/f5/x" }},
		{"not exported", func(string) string { return "/usr" }},
		{"not there at all", func(string) string { return "/no/such/place" }},
		{"only starting like the export", func(r string) string { return r + "x" }},
		{"the root", func(string) string { return "/" }},
		{"nothing", func(string) string { return "" }},
		{"relative", func(r string) string { return r[1:] }},
		{"of 1024 bytes", func(r string) string { return r + strings.Repeat("/", 1024-len(r)) }},
		{"of 1025 bytes", func(r string) string { return r + strings.Repeat("/", 1025-len(r)) }},
		{"with a name of 256 bytes", func(r string) string { return r + "/" + strings.Repeat("x", 256) }},
		{"with a NUL", func(r string) string { return r + "\x00" }},
	} {
		cases = append(cases, diffCase{"MNT " + m.name, func(s *side) string {
			return s.render(s.mount, progMount, 3, 1, rootCred, new(enc).str(m.path(s.tree.dir)).b, okMount, nothing)
		}})
	}
	for _, c := range []struct {
		who  string
		cred cred
	}{{"bob", bobCred}, {"AUTH_NONE", noCred}} {
		cases = append(cases, diffCase{"MNT as " + c.who, func(s *side) string {
			return s.render(s.mount, progMount, 3, 1, c.cred, new(enc).str(s.tree.dir).b, okMount, nothing)
		}})
		cases = append(cases, diffCase{"MNT a directory that only root may enter as " + c.who, func(s *side) string {
			return s.render(s.mount, progMount, 3, 1, c.cred, new(enc).str(s.tree.dir+"/shut-0700").b, okMount, nothing)
		}})
	}
	for vers := uint32(1); vers <= 4; vers++ {
		for proc := uint32(2); proc <= 6; proc++ {
			cases = append(cases, diffCase{fmt.Sprintf("MOUNT version %d procedure %d", vers, proc), func(s *side) string { return s.mountProc(vers, proc) }})
		}
	}
	return cases
}

// mountProc renders the procedures of MOUNT without a status.
func (s *side) mountProc(vers, proc uint32) string {
	args := new(enc)
	if proc == 3 {
		args.str(s.tree.dir)
	}
	r, err := s.call(s.mount, progMount, vers, proc, rootCred, args.b)
	if err != nil {
		return noReply(err)
	}
	if r.denied || r.accept != 0 {
		return renderRPC(r)
	}
	d := &dec{b: r.body}
	text := "done"
	switch {
	case proc == 2: // DUMP; who mounted what before would be too much
		known := false
		for d.bool() && d.err == nil {
			d.opaque()
			known = string(d.opaque()) == s.tree.dir || known
		}
		text += fmt.Sprintf(", lists the mount: %v", known)
	case proc == 5, proc == 6 && vers == 1: // EXPORT, EXPORTALL
		for d.bool() && d.err == nil {
			text += " " + strings.ReplaceAll(string(d.opaque()), s.tree.dir, "EXPORT")
			for d.bool() && d.err == nil {
				text += fmt.Sprintf(" to %s", d.opaque())
			}
		}
	}
	if err := d.end(); err != nil {
		text += fmt.Sprintf(" MALFORMED (%v)", err)
	}
	return text
}
