package export

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var (
	diffSeed  = flag.Uint64("diff.seed", 1, "seed of the files of TestAgainstExportfs")
	diffFiles = flag.Int("diff.files", 300, "number of files of TestAgainstExportfs")
)

// oursAlone are errors that exportfs does not make. Where one occurs it is
// enough that we grant nothing that exportfs does not.
var oursAlone = []string{
	"does not fit", "bad range of ids", "is not an IPv4 address of four decimal numbers",
	"the prefix length after / is missing", "invalid prefix length \"+", "this quote is never closed",
	"empty path", "empty client", "NUL byte in a", "path of 1025 bytes", "cannot contain white space",
}

// fileWriter writes exports files that are mostly right, with every odd thing
// now and then.
type fileWriter struct {
	*rand.Rand
	strings.Builder
}

func (w *fileWriter) pick(list ...string) string { return list[w.IntN(len(list))] }

// rarely is true once in n times.
func (w *fileWriter) rarely(n int) bool { return w.IntN(n) == 0 }

func (w *fileWriter) path() string {
	return w.pick("/E/a", "/E/b", "/E/f", "/E/ln", "/E/a/", "/E//b", "/E/a/../b", `"/E/c d"`, `/E/c\040d`, "/E/é",
		"/E/h#x", `/E/"a"`, "/E/nope", "/E/file", "/E/a/sub", "/", `/E/\141`, `/E/\057a`, `/E/a\x`, "relative", `"/E/a`+"\n"+`b"`)
}

// host leaves out what starts with a dash: after such a one exportfs reads a
// buffer of the line before where a line has no client.
func (w *fileWriter) host() string {
	if w.rarely(3) {
		return fmt.Sprintf("10.%d.%d.%d", w.IntN(2), w.IntN(3), w.IntN(3))
	}
	return w.pick("*", "*", "1.2.3.4", "big", "BIG", "alias9", "h1", "h1b.example.org", "10.9.9.9", "six", "2001:db8::9", "::1",
		"localhost", "nohost", "*.example.org", "h?.x", "h[0-9]*", "@grp", "@nest", "10.0.0.0/8", "10.9.0.0/255.255.0.0",
		"10.0.0.0/33", "10.0.0.0/255.0.0", "2001:db8::/32", "2001:db8::/200", "::/0", "0.0.0.0/0", "99.1", "10.0.0.0/", "x/8",
		"gss/krb5", "", "a#b", `a\052`, `h\*`, "[::1]", "::ffff:10.9.9.9", "multi.example.org", "10.9.9.13", "x-", "1.2.3.400")
}

func (w *fileWriter) option() string {
	if w.rarely(60) {
		return w.pick("", "zork", "RW", "ro ", "anonuid=", "anonuid=x", "anongid=99999999999", "fsid=", "fsid=zz", "fsid=4294967296",
			"sec=", "sec=krb6", "sec", "mpx", "xprtsec=tls", "(ro", "ro=1")
	}
	switch w.IntN(12) {
	case 0:
		return fmt.Sprintf("anonuid=%d", w.IntN(100000)-5)
	case 1:
		return w.pick("anongid=-1", "anongid=+7", "anongid=3000000000", "fsid=0", "fsid=root", "fsid=0x1f", "fsid=017", "fsid=-1", "fsid=9",
			"fsid=12345678-1234-1234-1234-123456789abc", "fsid=a2345678:1234:1234:1234:123456789abc")
	case 2, 3, 4:
		var list []string
		for range 1 + w.IntN(3) {
			list = append(list, w.pick("sys", "unix", "krb5", "krb5i", "krb5p", "none", "null"))
		}
		return "sec=" + strings.Join(list, ":")
	case 5:
		return w.pick("mp", "mountpoint", "mp=/E/a", "mountpoint=/E", "refer=/x@h", "replicas=/y@h+i:/z@j", "refer=")
	}
	return w.pick("ro", "rw", "rw", "secure", "insecure", "sync", "async", "nordirplus", "security_label", "nohide", "hide", "crossmnt",
		"nocrossmnt", "wdelay", "no_wdelay", "root_squash", "no_root_squash", "all_squash", "no_all_squash", "subtree_check",
		"no_subtree_check", "auth_nlm", "no_auth_nlm", "secure_locks", "insecure_locks", "acl", "no_acl", "pnfs", "no_pnfs")
}

func (w *fileWriter) options() string {
	var list []string
	for range w.IntN(6) {
		list = append(list, w.option())
	}
	s := strings.Join(list, ",")
	if w.rarely(10) && s != "" {
		s += ","
	}
	return s
}

func (w *fileWriter) client() string {
	s := w.host() + "(" + w.options() + ")"
	if w.rarely(20) { // not among default options: exportfs frees them twice
		s = w.host() + "(" + w.pick("squash_uids=4", "squash_uids=1-9,squash_uids=20", "squash_uids=1x") + ")"
	}
	switch w.IntN(40) {
	case 0:
		return strings.Replace(s, "(", " (", 1)
	case 1:
		return w.host()
	case 2:
		return `"` + strings.Replace(s, "(", "(\t", 1) + `"`
	case 3:
		return s + w.pick("x", "#c", "(ro)", `""`)
	case 4:
		return strings.TrimSuffix(s, ")")
	case 5:
		return strings.Replace(s, ",", ",\\\n", 1)
	}
	return s
}

func (w *fileWriter) blank() {
	w.WriteString(w.pick(" ", " ", " ", "\t", "  ", " \\\n  ", "\\\n\t"))
}

func (w *fileWriter) line() {
	switch w.IntN(20) {
	case 0:
		w.WriteString(w.pick("# comment \\\n", "\n", "   \t\n", "\\\n", "\r\n", " #\n", "\x00\n"))
		return
	case 1:
		w.blank()
	}
	w.WriteString(w.path())
	for range w.IntN(5) {
		w.blank()
		if w.rarely(5) {
			w.WriteString("-" + w.options())
			w.blank()
		}
		w.WriteString(w.client())
	}
	w.WriteString(w.pick("\n", "\n", "\n", "\n", " \n", " # c\n", "\r\n", " \r\n", "\f\n", "\\\n\n"))
}

func randomExports(seed uint64) string {
	w := &fileWriter{Rand: rand.New(rand.NewPCG(seed, 2049))}
	for range 1 + w.IntN(8) {
		w.line()
	}
	if w.rarely(10) {
		w.WriteString(w.pick(`"`, `\`, "/E/a", "#", " ", `/E/a "*(ro)`))
	}
	return w.String()
}

// realExportfs skips the test unless the real tool can be run, and otherwise
// returns a directory for cases.
func realExportfs(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("takes seconds")
	}
	if _, err := exec.LookPath("exportfs"); err != nil {
		t.Skip("exportfs is not installed: ", err)
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can make a mount namespace of its own")
	}
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "etc"), os.DirFS("testdata/cases/etc")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func runExportfs(t *testing.T, dir string) {
	t.Helper()
	if out, err := exec.Command("testdata/make-cases.sh", dir).CombinedOutput(); err != nil {
		t.Skipf("this machine does not let the test mount: %v\n%s", err, out)
	}
}

// TestMatchAgainstExportfs asks the real exportfs which entry of random ones
// holds for some clients. The entries are told apart by their anonuid.
func TestMatchAgainstExportfs(t *testing.T) {
	dir := realExportfs(t)
	const files = 40
	for i := range files {
		w := &fileWriter{Rand: rand.New(rand.NewPCG(*diffSeed+uint64(i), 111))}
		w.WriteString("/E/a")
		for id := range 2 + w.IntN(6) {
			fmt.Fprintf(w, " %s(anonuid=%d)", w.pick("*", "big", "alias9", "10.9.9.10", "10.9.9.9/32", "10.9.9.8/31", "10.9.0.0/16",
				"10.0.0.0/255.0.0.255", "10.9.9.0/255.255.0.254", "128.0.0.0/1", "0.0.0.0/1", "*.org", "b?g.*", "h*.?", "*.EXAMPLE.*",
				"[a-h]1.*", "[^b]*.org", "@grp", "@nest", "@none", "multi.example.org", "*1*"), id)
		}
		base := filepath.Join(dir, fmt.Sprintf("%05d", i))
		write(t, base+".exports", w.String()+"\n")
		var clients strings.Builder
		for _, a := range []string{"10.9.9.9", "10.9.9.10", "10.9.9.11", "10.9.9.13", "10.77.0.9", "172.16.1.1"} {
			clients.WriteString(a + " /E/a\n")
		}
		write(t, base+".clients", clients.String())
	}
	runExportfs(t, dir)
	root, hosts := tree(t), caseHosts(t)
	for i := range files {
		base := filepath.Join(dir, fmt.Sprintf("%05d", i))
		table, _, err := Load(context.Background(), LoadOptions{File: base + ".exports", Root: root, Resolver: hosts})
		if err != nil {
			t.Fatal(err)
		}
		want := readWant(t, base+".want")
		if len(want.matches) != 6 {
			t.Fatalf("exportfs answered %d times", len(want.matches))
		}
		checkMatches(t, "", table, hosts, want.matches)
		if t.Failed() {
			text, _ := os.ReadFile(base + ".exports")
			t.Fatalf("seed %d: %s", *diffSeed+uint64(i), text)
		}
	}
}

// TestAgainstExportfs runs the real exportfs on random files and compares.
func TestAgainstExportfs(t *testing.T) {
	dir := realExportfs(t)
	for i := range *diffFiles {
		write(t, filepath.Join(dir, fmt.Sprintf("%05d.exports", i)), randomExports(*diffSeed+uint64(i)))
	}
	runExportfs(t, dir)
	root, hosts := tree(t), caseHosts(t)
	refused := 0
	for i := range *diffFiles {
		base := filepath.Join(dir, fmt.Sprintf("%05d", i))
		want := readWant(t, base+".want")
		if t.Failed() && !testing.Verbose() {
			t.Fatalf("seed %d and later: not looked at", *diffSeed+uint64(i))
		}
		table, diags, err := Load(context.Background(), LoadOptions{File: base + ".exports", Root: root, Resolver: hosts})
		if err != nil {
			t.Fatal(err)
		}
		got := table.EtabLines()
		slices.Sort(got)
		slices.Sort(want.etab)
		text, _ := os.ReadFile(base + ".exports")
		if slices.ContainsFunc(diags, isOursAlone) {
			refused++
			for _, line := range got {
				if !slices.Contains(want.etab, line) {
					t.Errorf("seed %d: granted in spite of an error:\n%s\nfile:\n%s\n%v", *diffSeed+uint64(i), line, text, diags)
				}
			}
			continue
		}
		if diff := cmp.Diff(want.etab, got); diff != "" || diags.ExitStatus() != want.status {
			t.Errorf("seed %d: exit status %d, exportfs %d; etab, exportfs - and ours +:\n%s\nfile:\n%s\n%v",
				*diffSeed+uint64(i), diags.ExitStatus(), want.status, diff, text, diags)
		}
	}
	t.Logf("%d files, %d of them with an error that is ours alone", *diffFiles, refused)
	if refused > *diffFiles/2 {
		t.Error("too few files are compared in full")
	}
}

func isOursAlone(d Diagnostic) bool {
	return d.Severity == Error && slices.ContainsFunc(oursAlone, func(s string) bool { return strings.Contains(d.Message, s) })
}
