package numa

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

// fixture reads a tree from testdata: a line "path = content" is a file, in
// which \n and \t stand for what they do in Go, "path -> target" a link.
func fixture(t testing.TB, name string) fstest.MapFS {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name+".sys"))
	if err != nil {
		t.Fatal(err)
	}
	root := fstest.MapFS{}
	unquote := strings.NewReplacer(`\n`, "\n", `\t`, "\t")
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if target, content, ok := strings.Cut(line, " -> "); ok {
			root[target] = &fstest.MapFile{Data: []byte(content), Mode: fs.ModeSymlink | 0o777}
		} else if name, content, ok := strings.Cut(line, " ="); ok && !strings.HasPrefix(line, "#") {
			root[name] = &fstest.MapFile{Data: []byte(unquote.Replace(strings.TrimSpace(content)) + "\n"), Mode: 0o444}
		} else if !strings.HasPrefix(line, "#") {
			t.Fatalf("%s: %q is neither a file nor a link", name, line)
		}
	}
	return root
}

func readFixture(t testing.TB, name string) *Topology {
	t.Helper()
	topo, err := Read(fixture(t, name))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return topo
}

func list(t testing.TB, s string) List {
	t.Helper()
	l, err := ParseList(s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
