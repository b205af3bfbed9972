package export

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestStrverscmp holds the order of exports.d against glibc.
func TestStrverscmp(t *testing.T) {
	data, err := os.ReadFile("testdata/strverscmp.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if line[0] == '#' {
			continue
		}
		var want int
		var a, b string
		if _, err := fmt.Sscan(line, &want, &a, &b); err != nil {
			t.Fatal(line, err)
		}
		a, b = strings.TrimPrefix(a, "-"), strings.TrimPrefix(b, "-")
		if got := sign(strverscmp(a, b)); got != want {
			t.Errorf("strverscmp(%q, %q) = %d, glibc %d", a, b, got, want)
		}
	}
}

func write(t testing.TB, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// load reads text as an exports file for a tree.
func load(t testing.TB, root, text string) (*Table, Diagnostics) {
	t.Helper()
	table, _, diags := parseTable(context.Background(), "exports", []byte(text), LoadOptions{Root: root, Resolver: caseHosts(t)})
	return table, diags
}

func mustContain(t *testing.T, diags Diagnostics, sev Severity, text string) {
	t.Helper()
	for _, d := range diags {
		if d.Severity == sev && strings.Contains(d.String(), text) {
			return
		}
	}
	t.Errorf("no %s %q in:\n%v", sev, text, diags)
}

// TestDiagnostics checks place, wording and hint of what people get wrong.
func TestDiagnostics(t *testing.T) {
	root := tree(t)
	for _, c := range []struct {
		name, text string
		sev        Severity
		want       string
	}{
		{"space", "/E/a big (rw)\n", Warning, "exports:1:10: warning: the blank before (rw) makes two clients: big with the default options, and everyone (*) with (rw) (without the blank it is one client: big(rw))"},
		{"no client", "/E/a (ro)\n", Warning, "exports:1:6: warning: no client stands before (ro)"},
		{"path alone", "\n/E/a\n", Warning, "exports:2:1: warning: no client is named, so that everyone gets /E/a"},
		{"misspelt", "/E/a *(ro,no_root_squach)\n", Error, `exports:1:11: error: unknown option "no_root_squach"; the rest of the file is not read (did you mean no_root_squash?)`},
		{"misspelt in continued line", "/E/a \\\n  \"*(ro,\\\n   insecrue)\"\n", Error, `exports:3:4: error: unknown option "insecrue"`},
		{"case", "/E/a *(RO)\n", Error, "option names are in lower case: ro"},
		{"semicolon", "/E/a *(rw;sync)\n", Error, "separated by commas"},
		{"value wanted", "/E/a *(fsid)\n", Error, "fsid needs a value"},
		{"value not wanted", "/E/a *(ro=1)\n", Error, "ro takes no value"},
		{"newer", "/E/a *(xprtsec=mtls)\n", Error, "RPC over TLS"},
		{"empty option", "/E/a *(ro,,sync)\n", Error, "exports:1:11: error: empty option"},
		{"unclosed", "/E/a *(ro, sync)\n", Error, "exports:1:7: error: the option list has no closing parenthesis"},
		{"glued comment", "/E/a *(ro)#x\n", Error, "exports:1:11"},
		{"quote", "/E/a *(ro)\n\"/E/b *(ro)\n/E/f *(ro)\n", Error, "exports:2:1: error: this quote is never closed"},
		{"unknown host", "/E/a nohost.example.org(ro)\n", Warning, "exports:1:6: warning: cannot resolve the host nohost.example.org"},
		{"option as host", "/E/a no_subtree_check\n", Warning, "no_subtree_check is an option"},
		{"duplicate", "/E/a big(ro)\n/E/ln 10.9.9.9(rw)\n", Warning, "exports:2:7: warning: /E/a has 10.9.9.9 (that is, big.example.org) already; this entry has other options, which are ignored (the first entry is at line 1"},
		{"nested", "/E/a *(ro)\n/E/a/sub *(ro)\n", Note, "exports:1:6: note: /E/a/sub lies below this export"},
		{"everyone's root", "/E/a *(no_root_squash)\n", Warning, "no_root_squash for everyone"},
		{"read-only", "/E/a big(rw) h1(rw)\n", Warning, "rw is served read-only here (2 entries)"},
		{"krb5 only", "/E/a *(sec=krb5)\n", Warning, "sec=krb5 is not served here, so that * gets no access to /E/a"},
		{"krb5 too", "/E/a *(sec=krb5:sys)\n", Note, "sec=krb5 is not served here; the other flavours"},
		{"gss", "/E/a gss/krb5(ro)\n", Warning, "never matches"},
		{"missing path", "/E/x *(ro)\n", Warning, "exports:1:1: warning: /E/x: no such file or directory"},
		{"relative path", "E/x *(ro)\n", Warning, "is relative"},
		{"file", "/E/file *(ro)\n", Warning, "not a directory"},
		{"address wildcard", "/E/a 10.1.*(ro)\n", Warning, "never addresses"},
		{"brackets", "/E/a [::1](ro)\n", Warning, "character class"},
		{"prefix", "/E/a 10.0.0.0/33(ro)\n", Error, `exports:1:6: error: invalid prefix length "33" in 10.0.0.0/33`},
		{"no prefix", "/E/a 10.0.0.0/(ro)\n", Error, "prefix length after / is missing"},
		{"inet_aton", "/E/a 127.1(ro)\n", Error, "exportfs would take it for 127.0.0.1"},
		{"anonuid", "/E/a *(anonuid=nobody)\n", Error, "names are not looked up"},
		{"anonuid range", "/E/a *(anonuid=4294967296)\n", Error, "does not fit"},
		{"fsid range", "/E/a *(fsid=4294967296)\n", Error, "does not fit"},
		{"sec", "/E/a *(sec=sys:krb)\n", Error, `unknown security flavour "krb"`},
		{"squash ids", "/E/a *(squash_uids=0-9)\n", Note, "squash_uids has no effect"},
		{"trailing defaults", "/E/a big(ro) -rw\n", Warning, "exports:1:14: warning: these default options end the line"},
		{"defaults bind", "/E/a -sec=sys,no_root_squash big(root_squash)\n", Warning, "change nothing"},
		{"carriage return line", "/E/a *(ro)\r\n\r\n/E/b *(ro)\r\n", Error, "exports:2:1: error: empty path"},
		{"NUL", "/E/a *(ro)\n\x00\n", Warning, "exports:2:1: warning: NUL byte"},
		{"long client", "/E/a " + strings.Repeat("a", 512) + "\n", Error, "client of 512 bytes or more"},
		{"escapes", "/E/\x1b[31m *(ro)\n", Warning, "/E/?[31m: no such file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, diags := load(t, root, c.text)
			mustContain(t, diags, c.sev, c.want)
		})
	}
}

func TestFormat(t *testing.T) {
	_, diags := load(t, tree(t), "/E/é\tbig(ro,no_root_squach)\n")
	var out bytes.Buffer
	if err := diags.Format(&out); err != nil {
		t.Fatal(err)
	}
	const want = "exports:1:14: error: unknown option \"no_root_squach\"; the rest of the file is not read\n" +
		"    1 | /E/é big(ro,no_root_squach)\n" +
		"      |             ^~~~~~~~~~~~~~\n" +
		"        hint: did you mean no_root_squash?\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

// TestBadInput feeds what is no exports file. Each must end soon and say so.
func TestBadInput(t *testing.T) {
	root := tree(t)
	hosts := caseHosts(t)
	big := filepath.Join(t.TempDir(), "big")
	write(t, big, "")
	if err := os.Truncate(big, 100<<20); err != nil {
		t.Fatal(err)
	}
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, file, want string }{
		{"100 MiB", big, "too large: an exports file may have 16777216 bytes"},
		{"FIFO", fifo, "not a regular file"},
		{"device", "/dev/zero", "not a regular file"},
		{"directory", root, "is a directory"},
		{"missing", filepath.Join(root, "nothing"), "no such file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := Load(context.Background(), LoadOptions{File: c.file, Root: root, Resolver: hosts})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestLongLines(t *testing.T) {
	root := tree(t)
	t.Run("1 MiB line of clients", func(t *testing.T) {
		var b strings.Builder
		b.WriteString("/E/a")
		for i := 0; b.Len() < 1<<20; i++ {
			fmt.Fprintf(&b, " 10.%d.%d.%d(ro)", i>>16, i>>8&255, i&255)
		}
		table, diags := load(t, root, b.String()+"\n")
		if diags.HasErrors() || len(table.Export("/E/a").Entries) < 50000 {
			t.Errorf("%d entries, %v", len(table.Export("/E/a").Entries), diags)
		}
	})
	t.Run("1 MiB word", func(t *testing.T) {
		_, diags := load(t, root, "/E/a "+strings.Repeat("x", 1<<20)+"\n")
		mustContain(t, diags, Error, "client of 512 bytes or more")
	})
	t.Run("15 MiB of newlines", func(t *testing.T) {
		if _, diags := load(t, root, strings.Repeat("\n", 15<<20)+"/E/a *(zork)"); len(diags) != 1 || diags[0].Pos.Line != 15<<20+1 {
			t.Error(diags)
		}
	})
	t.Run("too many entries", func(t *testing.T) {
		table, diags := load(t, root, "/E/a"+strings.Repeat(" @g", maxEntries+10)+"\n/E/b *\n")
		mustContain(t, diags, Error, "more than 262144 entries")
		if len(diags) > 2*maxDiagnostics+1 || table.Export("/E/b") != nil {
			t.Error(len(diags))
		}
	})
	t.Run("more messages than are kept", func(t *testing.T) {
		_, diags := load(t, root, strings.Repeat("/E/a 1.2\n", 5000))
		if !diags.HasErrors() || diags.ExitStatus() != 1 || len(diags) > 2*maxDiagnostics+1 {
			t.Error(len(diags))
		}
		mustContain(t, diags, Error, "more messages are not shown")
	})
	t.Run("invalid UTF-8 and control bytes", func(t *testing.T) {
		table, diags := load(t, root, "/E/\xff\xfe *(ro)\n\"/E/\x01\" *(ro)\n")
		if diags.HasErrors() || table.Export("/E/\xff\xfe") == nil || table.Export("/E/\x01") == nil {
			t.Error(diags)
		}
	})
}

// TestDir covers what may lie in exports.d, or instead of it.
func TestDir(t *testing.T) {
	root := tree(t)
	hosts := caseHosts(t)
	conf := t.TempDir()
	file, dir := filepath.Join(conf, "exports"), filepath.Join(conf, "exports.d")
	o := LoadOptions{File: file, Dir: dir, Root: root, Resolver: hosts}
	write(t, file, "/E/a *(ro)\n")
	get := func(t *testing.T) (*Table, Diagnostics) {
		t.Helper()
		table, diags, err := Load(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		return table, diags
	}
	t.Run("missing", func(t *testing.T) {
		if _, diags := get(t); len(diags) > 0 {
			t.Error(diags)
		}
	})
	t.Run("a file", func(t *testing.T) {
		write(t, dir, "")
		_, diags := get(t)
		mustContain(t, diags, Error, "cannot read it")
		os.Remove(dir)
	})
	os.Mkdir(dir, 0o755)
	t.Run("loops and worse", func(t *testing.T) {
		os.Symlink(dir, filepath.Join(dir, "self.exports"))
		os.Symlink("loop.exports", filepath.Join(dir, "loop.exports"))
		os.Mkdir(filepath.Join(dir, "sub.exports"), 0o755)
		unix.Mkfifo(filepath.Join(dir, "fifo.exports"), 0o644)
		os.Symlink("fifo.exports", filepath.Join(dir, "tofifo.exports"))
		write(t, filepath.Join(dir, "z.exports"), "/E/b *(ro)\n")
		table, diags := get(t)
		if table.Export("/E/b") == nil || table.Export("/E/a") == nil {
			t.Error(diags)
		}
		mustContain(t, diags, Warning, "self.exports: warning: cannot read it: is a directory")
		mustContain(t, diags, Error, "loop.exports: error: cannot read it: too many levels")
		mustContain(t, diags, Error, "tofifo.exports: error: cannot read it: it is not a regular file")
	})
	t.Run("no main file", func(t *testing.T) {
		os.Remove(file)
		table, diags := get(t)
		if table.Export("/E/b") == nil || diags.ExitStatus() != 1 {
			t.Error(diags)
		}
	})
}

// TestVanish reads a file that others keep removing and writing.
func TestVanish(t *testing.T) {
	root := tree(t)
	file := filepath.Join(t.TempDir(), "exports")
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				os.WriteFile(file, []byte("/E/a *(ro)\n"), 0o644)
				os.Remove(file)
			}
		}
	}()
	hosts := caseHosts(t)
	for range 200 {
		_, diags, err := Load(context.Background(), LoadOptions{File: file, Root: root, Resolver: hosts})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if diags.HasErrors() {
			t.Fatal(diags)
		}
	}
	close(stop)
	<-done
}

// manyExports makes n directories and a file that exports each to three
// addresses and a network.
func manyExports(t testing.TB, n int) LoadOptions {
	t.Helper()
	root := t.TempDir()
	var b strings.Builder
	for i := range n {
		dir := fmt.Sprintf("/srv/%d/%d", i/100, i%100)
		if err := os.MkdirAll(root+dir, 0o755); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s 10.%d.%d.1(ro) 10.%d.%d.2(ro,insecure) 2001:db8::%x(ro) 10.%d.0.0/16(ro)\n", dir, i>>8, i&255, i>>8, i&255, i, i>>8)
	}
	file := filepath.Join(root, "exports")
	write(t, file, b.String())
	return LoadOptions{File: file, Root: root, Resolver: unasked{t}}
}

// TestLoadMany: 10,000 lines in under a second, without a single look-up.
func TestLoadMany(t *testing.T) {
	o := manyExports(t, 10000)
	start := time.Now()
	table, diags, err := Load(context.Background(), o)
	took := time.Since(start)
	if err != nil || diags.HasErrors() || table.Len() != 10000 {
		t.Fatal(err, table.Len(), diags[:min(3, len(diags))])
	}
	t.Logf("10,000 lines took %v", took)
	if took > time.Second && !raceEnabled {
		t.Errorf("took %v", took)
	}
}

func TestResolvePath(t *testing.T) {
	root := tree(t)
	for link, to := range map[string]string{"abs": "/E/b", "up": "../../../E/a", "l1": "l2", "l2": "l1", "deep": "ln/sub"} {
		if err := os.Symlink(to, filepath.Join(root, "E", link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		path, want string
		err        error
	}{
		{"/", "/", nil},
		{"//E//a/.", "/E/a", nil},
		{"/E/abs", "/E/b", nil},
		{"/E/up", "/E/a", nil},
		{"/E/deep", "/E/a/sub", nil},
		{"/E/ln/..", "/E", nil},
		{"/../..", "/", nil},
		{"/E/l1", "", syscall.ELOOP},
		{"/E/x", "", syscall.ENOENT},
		{"/E/file/", "", syscall.ENOTDIR},
		{"/E/file/..", "", syscall.ENOTDIR},
		{"E", "", syscall.ENOENT},
	} {
		got, err := resolvePath(root, c.path, map[string]string{})
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %q, %v; want %q, %v", c.path, got, err, c.want, c.err)
		}
	}
}

func TestLocal(t *testing.T) {
	dir := filepath.Join(t.TempDir(), `a b"#\`)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	table, err := Local(dir)
	if err != nil {
		t.Fatal(err)
	}
	x := table.Exports()
	if len(x) != 1 || filepath.Base(x[0].Path) != `a b"#\` || len(x[0].Entries) != 2 {
		t.Fatalf("%+v", table.EtabLines())
	}
	f, ok := x[0].Entries[0].Flavor(AUTH_SYS)
	if !ok || !f.ReadOnly || !f.Secure || !f.RootSquash || f.AllSquash || f.AnonUID != 65534 {
		t.Errorf("%+v", f)
	}
	if _, err := Local(); err == nil {
		t.Error("no directory was accepted")
	}
	if _, err := Local(dir, filepath.Join(dir, "none")); err == nil {
		t.Error("a missing directory was accepted")
	}
}
