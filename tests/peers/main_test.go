package peers

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"sync"
	"testing"

	"sluice/tests/guest"
)

var (
	sluiceBin string // the program under test
	scratch   string // removed when all tests are done; world-readable
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if scratch, err = os.MkdirTemp("", "peers-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(scratch)
	if err := prepare(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	skips.print()
	return code
}

func prepare() error {
	if err := os.Chmod(scratch, 0o755); err != nil {
		return err
	}
	if sluiceBin = os.Getenv("SLUICE"); sluiceBin != "" {
		return nil
	}
	sluiceBin = filepath.Join(scratch, "sluice")
	out, err := exec.Command("go", "build", "-o", sluiceBin, "sluice/nfsd/cmd/sluice").CombinedOutput()
	if err != nil {
		return fmt.Errorf("building the server: %w\n%s", err, out)
	}
	return nil
}

// skips remembers what was not tested, for the end of the run.
var skips skipList

type skipList struct {
	mu  sync.Mutex
	all map[string]string // test to reason
}

func (s *skipList) add(test, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = make(map[string]string)
	}
	s.all[test] = reason
}

func (s *skipList) print() {
	s.mu.Lock()
	defer s.mu.Unlock()
	var tests []string
	for t := range s.all {
		tests = append(tests, t)
	}
	sort.Strings(tests)
	fmt.Printf("peers: %d tests skipped\n", len(tests))
	for _, t := range tests {
		fmt.Printf("peers: not tested: %s: %s\n", t, s.all[t])
	}
}

// skip skips the test and has its reason listed at the end.
func skip(t *testing.T, format string, args ...any) {
	t.Helper()
	reason := fmt.Sprintf(format, args...)
	skips.add(t.Name(), reason)
	t.Skip(reason)
}

// needTools skips the test if one of the programs is not installed.
func needTools(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			skip(t, "%s is not installed (tests/setup.sh test)", p)
		}
	}
}

// newGuest makes a guest that is closed with the test, or skips the test.
func newGuest(t *testing.T) *guest.Guest {
	t.Helper()
	g, err := guest.New(guest.Options{MemMiB: 384})
	if errors.Is(err, guest.ErrUnavailable) {
		skip(t, "%v", err)
	}
	must(t, err)
	t.Cleanup(func() { must(t, g.Close()) })
	return g
}

// newNamespace makes a namespace that is closed with the test, or skips it.
func newNamespace(t *testing.T) *guest.Namespace {
	t.Helper()
	n, err := guest.NewNamespace()
	if errors.Is(err, guest.ErrUnavailable) {
		skip(t, "%v", err)
	}
	must(t, err)
	t.Cleanup(func() { must(t, n.Close()) })
	return n
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
