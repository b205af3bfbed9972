package export

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// deviations are the cases where we differ from exportfs on purpose: what we
// make of the file instead, the exit status and the clients kept.
var deviations = map[string]struct {
	reason string
	kept   []string // "path client", sorted
}{
	"a43_anon":               {"an anonuid that overflows is an error, not wrapped", []string{"/E/a 1.2.3.4"}},
	"a56_unterminated_quote": {"an unterminated quote is an error and no path", nil},
	"b20_fsid_neg":           {"an fsid that overflows is an error, not 0", []string{"/E/a 1.2.3.4"}},
	"b23_fqdn_oct":           {"inet_aton forms are errors, not addresses", nil},
	"c15_squash_empty":       {"an empty range is an error, not uid 0", nil},
	"c21_crlf_blank_line":    {"exportfs stops reading there, silently", []string{"/E/a *"}},
	"c24_empty_client":       {"an empty client is an error, not everyone", nil},
	"c25_empty_client_late":  {"an empty client is an error; exportfs takes the next one for a path", []string{"/E/b 1.2.3.4"}},
	"c26_empty_path":         {"exportfs stops reading there, silently", []string{"/E/a 1.2.3.4"}},
	"c28_nul_quoted":         {"a NUL in a name is an error; exportfs cuts the name, with its options", nil},
	"c29_nul_octal":          {"a NUL in a name is an error; exportfs cuts the name", nil},
	"c31_formfeed":           {"a control character as a client is an error, not everyone", nil},
	"c32_path_1103":          {"exportfs stops reading there, silently", nil},
	"c34_path_1025":          {"exportfs stops reading there, silently", nil},
	"c51_fsid_decimal_uuid":  {"a UUID of decimal digits is an error, not -1", nil},
	"c61_prefix_empty":       {"an empty prefix length is an error, not 0", []string{"/E/a 10.0.0.1"}},
	"c62_prefix_plus":        {"a prefix length is digits", []string{"/E/a 10.0.0.1"}},
	"c63_aton":               {"inet_aton forms are errors, not addresses", []string{"/E/a 10.0.0.1"}},
	"c65_client_blank":       {"a client that etab cannot hold is an error", []string{"/E/b *"}},
}

// etabDeviations are the cases where only the print of the table differs.
var etabDeviations = map[string]string{
	"c13_squash_gids_alone": "exportfs prints as many squash_gids as there are squash_uids",
	"c71_mp_blank":          "exportfs does not escape a mountpoint=",
}

// matchDeviations are the answers about clients that differ on purpose, by
// case, client and path.
var matchDeviations = map[string]string{
	// exportfs shifts a 32-bit word by 32 for /0, which on x86 leaves it: only
	// the base address matches. exports(5) says otherwise.
	"c03_match_slash0 10.9.9.9 /E/a": "1",
}

// tree makes the directories that the cases expect, below a root to be used
// as LoadOptions.Root.
func tree(t testing.TB) string {
	t.Helper()
	root := t.TempDir()
	for _, d := range []string{"E/a/sub", "E/b", "E/c d", "E/f", "E/h#x", "E/é"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "E/file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("a", filepath.Join(root, "E/ln")); err != nil {
		t.Fatal(err)
	}
	return root
}

// hostsFile is a resolver over text like /etc/hosts and /etc/netgroup.
type hostsFile struct {
	names  map[string]string // alias in lower case to canonical name
	addrs  map[string][]netip.Addr
	byAddr map[netip.Addr][]string
	groups map[string][]string
}

var errNoHost = errors.New("name or service not known")

func readHosts(hosts, netgroup string) *hostsFile {
	h := &hostsFile{map[string]string{}, map[string][]netip.Addr{}, map[netip.Addr][]string{}, map[string][]string{}}
	for line := range strings.Lines(hosts) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		a := netip.MustParseAddr(f[0])
		for _, n := range f[1:] {
			n = strings.ToLower(n)
			if h.names[n] == "" {
				h.names[n] = f[1]
			}
			h.addrs[n] = append(h.addrs[n], a)
		}
		h.byAddr[a] = append(h.byAddr[a], f[1:]...)
	}
	for line := range strings.Lines(netgroup) {
		name, members, _ := strings.Cut(line, " ")
		h.groups[name], _ = parseNetgroup(members)
	}
	return h
}

func (h *hostsFile) LookupHost(_ context.Context, name string) (string, []netip.Addr, error) {
	n := strings.ToLower(name)
	if len(h.addrs[n]) == 0 {
		return "", nil, errNoHost
	}
	return h.names[n], h.addrs[n], nil
}

func (h *hostsFile) LookupAddr(_ context.Context, a netip.Addr) ([]string, error) {
	if len(h.byAddr[a]) == 0 {
		return nil, errNoHost
	}
	return h.byAddr[a], nil
}

func (h *hostsFile) LookupNetgroup(_ context.Context, g string) ([]string, error) {
	if _, ok := h.groups[g]; !ok {
		return nil, errNoHost
	}
	return h.groups[g], nil
}

func caseHosts(t testing.TB) *hostsFile {
	t.Helper()
	hosts, err := os.ReadFile("testdata/cases/etc/hosts")
	if err != nil {
		t.Fatal(err)
	}
	groups, err := os.ReadFile("testdata/cases/etc/netgroup")
	if err != nil {
		t.Fatal(err)
	}
	return readHosts(string(hosts), string(groups))
}

// verdict is what exportfs did with a case.
type verdict struct {
	status  int
	etab    []string
	matches []string
}

func readWant(t *testing.T, file string) (v verdict) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		kind, rest, _ := strings.Cut(line, " ")
		switch kind {
		case "exit":
			v.status, _ = strconv.Atoi(rest)
		case "etab":
			v.etab = append(v.etab, rest)
		case "match":
			v.matches = append(v.matches, rest)
		}
	}
	return v
}

// TestCases holds every case against what exportfs made of it.
func TestCases(t *testing.T) {
	files, err := filepath.Glob("testdata/cases/*.exports")
	if err != nil || len(files) < 70 {
		t.Fatalf("%d cases, %v", len(files), err)
	}
	root, hosts := tree(t), caseHosts(t)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".exports")
		t.Run(name, func(t *testing.T) {
			base := strings.TrimSuffix(file, ".exports")
			o := LoadOptions{File: file, Root: root, Resolver: hosts}
			if _, err := os.Stat(base + ".d"); err == nil {
				o.Dir = base + ".d"
			}
			table, diags, err := Load(context.Background(), o)
			if err != nil {
				t.Fatal(err)
			}
			checkDiagnostics(t, diags)
			want := readWant(t, base+".want")
			if d, ok := deviations[name]; ok {
				checkDeviation(t, table, diags, want, d.kept)
				return
			}
			if _, ok := etabDeviations[name]; ok {
				checkEtabDeviation(t, table, diags, want)
				return
			}
			got := table.EtabLines()
			slices.Sort(got)
			slices.Sort(want.etab)
			if diff := cmp.Diff(want.etab, got); diff != "" {
				t.Errorf("etab, exportfs - and ours +:\n%s\n%v", diff, diags)
			}
			if s := diags.ExitStatus(); s != want.status {
				t.Errorf("exit status %d, exportfs %d\n%v", s, want.status, diags)
			}
			checkMatches(t, name, table, hosts, want.matches)
		})
	}
}

func kept(table *Table) (list []string) {
	for _, x := range table.Exports() {
		for _, e := range x.Entries {
			list = append(list, x.Path+" "+e.Client.Name)
		}
	}
	slices.Sort(list)
	return list
}

func checkDeviation(t *testing.T, table *Table, diags Diagnostics, want verdict, wantKept []string) {
	t.Helper()
	if diff := cmp.Diff(wantKept, kept(table)); diff != "" {
		t.Errorf("kept (-want +got):\n%s\n%v", diff, diags)
	}
	if diags.ExitStatus() != 1 || !diags.HasErrors() {
		t.Errorf("no error\n%v", diags)
	}
	ours := table.EtabLines()
	slices.Sort(ours)
	if diags.ExitStatus() == want.status && slices.Equal(ours, want.etab) {
		t.Error("this is no deviation any more: remove it from the list")
	}
}

func checkEtabDeviation(t *testing.T, table *Table, diags Diagnostics, want verdict) {
	t.Helper()
	if s := diags.ExitStatus(); s != want.status || len(table.EtabLines()) != len(want.etab) {
		t.Errorf("exit status %d, exportfs %d\n%v", s, want.status, diags)
	}
	if ours := table.EtabLines(); slices.Equal(ours, want.etab) {
		t.Error("this is no deviation any more: remove it from the list")
	}
}

// checkDiagnostics holds every message to have a place and a caret in it.
func checkDiagnostics(t *testing.T, diags Diagnostics) {
	t.Helper()
	var out bytes.Buffer
	if err := diags.Format(&out); err != nil {
		t.Fatal(err)
	}
	for _, d := range diags {
		if d.Message == "" || d.Pos.File == "" || d.Caret > len(d.Line) || len(d.Line) > maxExcerptBytes {
			t.Errorf("bad diagnostic: %+v", d)
		}
	}
	if testing.Verbose() {
		t.Logf("\n%s", out.String())
	}
}

// checkMatches asks for the anonuid of the entry that holds for each client,
// which the cases make different for each entry.
func checkMatches(t *testing.T, name string, table *Table, r Resolver, want []string) {
	t.Helper()
	m := NewMatcher(table, r)
	for _, line := range want {
		f := strings.Fields(line)
		addr, path, anon := netip.MustParseAddr(f[0]), f[1], f[2]
		got := "none"
		if x := table.Export(path); x != nil {
			if e := m.MatchWait(context.Background(), x, addr); e != nil {
				got = strconv.Itoa(int(e.Options.AnonUID))
			}
		}
		// exportfs makes an entry with the default id where none matches.
		if anon == "65534" {
			anon = "none"
		}
		if ours, ok := matchDeviations[name+" "+f[0]+" "+path]; ok {
			anon = ours
		}
		if got != anon {
			t.Errorf("%s at %s: entry %s, exportfs %s", addr, path, got, anon)
		}
	}
}
