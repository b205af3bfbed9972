// Package arch tests the shape of the module: who may import whom.
package arch

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "sluice"

// arrows say what of the module a top-level directory may import besides itself.
var arrows = map[string][]string{
	"uring":  nil,
	"rpc":    nil,
	"export": nil,
	"ioctx":  {"uring"},
	"nfsd":   {"uring", "rpc", "export", "ioctx"},
	"tests":  {"uring", "rpc", "export", "ioctx", "nfsd"},
}

// kernel lists the packages that speak to the kernel, and so may use
// golang.org/x/sys. Tests may anywhere.
var kernel = []string{"uring", "ioctx", "ioctx/numa", "rpc", "nfsd", "nfsd/sendpath", "nfsd/cmd/sluice",
	"nfsd/bench/client", "nfsd/bench/load", "nfsd/bench/host", "nfsd/bench/compare"}

// file is a Go file with what it imports, whatever its build constraints.
type file struct {
	dir, name string // dir from the module's root, with slashes
	imports   []string
}

func (f file) isTest() bool { return strings.HasSuffix(f.name, "_test.go") }
func (f file) path() string { return path.Join(f.dir, f.name) }
func (f file) top() string  { top, _, _ := strings.Cut(f.dir, "/"); return top }

func files(t *testing.T) (all []file) {
	t.Helper()
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if p != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(p, ".go") {
			return nil
		}
		src, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(p))
		if err != nil {
			return err
		}
		f := file{dir: filepath.ToSlash(dir), name: d.Name()}
		for _, i := range src.Imports {
			name, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			f.imports = append(f.imports, name)
		}
		all = append(all, f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Every directory with Go code has its arrows, so that a new one is thought of.
func TestEveryDirectoryIsKnown(t *testing.T) {
	seen := make(map[string]bool)
	for _, f := range files(t) {
		seen[f.top()] = true
		if _, ok := arrows[f.top()]; !ok {
			t.Errorf("%s: the directory %q has no row in arrows", f.path(), f.top())
		}
	}
	for top := range arrows {
		if !seen[top] {
			t.Errorf("%s: there is no Go code", top)
		}
	}
}

func TestArrows(t *testing.T) {
	for _, f := range files(t) {
		for _, i := range f.imports {
			rel, ours := strings.CutPrefix(i, module+"/")
			if !ours {
				continue
			}
			top, _, _ := strings.Cut(rel, "/")
			if top != f.top() && !slices.Contains(arrows[f.top()], top) {
				t.Errorf("%s imports %s: %s may import %v of this module", f.path(), i, f.top(), arrows[f.top()])
			}
		}
	}
}

// The client that the protocol tests use shares no code with the server.
func TestWireClientIsIndependent(t *testing.T) {
	for _, f := range files(t) {
		if f.dir != "tests/protocol/wire" {
			continue
		}
		for _, i := range f.imports {
			if strings.HasPrefix(i, module+"/") {
				t.Errorf("%s imports %s", f.path(), i)
			}
		}
	}
}

func TestKernelPackages(t *testing.T) {
	for _, f := range files(t) {
		if f.isTest() || f.top() == "tests" || strings.HasSuffix(f.dir, "test") || slices.Contains(kernel, f.dir) {
			continue
		}
		for _, i := range f.imports {
			if strings.HasPrefix(i, "golang.org/x/sys/") {
				t.Errorf("%s imports %s: only %v speak to the kernel", f.path(), i, kernel)
			}
		}
	}
}

func TestUnsafe(t *testing.T) {
	for _, f := range files(t) {
		if slices.Contains(f.imports, "unsafe") && !f.isTest() && !strings.HasSuffix(f.name, "_unsafe.go") {
			t.Errorf("%s imports unsafe: only *_unsafe.go files may", f.path())
		}
	}
}

// What is served does not depend on what tests it.
func TestNoTestCodeInProducts(t *testing.T) {
	for _, f := range files(t) {
		if f.isTest() || f.top() == "tests" || strings.HasSuffix(f.dir, "test") {
			continue
		}
		for _, i := range f.imports {
			if i == "testing" || strings.HasPrefix(i, module+"/") && strings.HasSuffix(i, "test") {
				t.Errorf("%s imports %s", f.path(), i)
			}
		}
	}
}
