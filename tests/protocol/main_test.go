package protocol

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
)

var (
	sluiceBin string // the program under test
	scratch   string // removed when all tests are done; world-readable
)

const insideNamespace = "SLUICE_PROTOCOL_NAMESPACE"

func TestMain(m *testing.M) {
	if os.Geteuid() == 0 && os.Getenv(insideNamespace) == "" {
		os.Exit(enterNamespace())
	}
	os.Exit(run(m))
}

// enterNamespace runs this program again in a mount namespace of its own, so
// that whatever is mounted goes away with it.
func enterNamespace() int {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), insideNamespace+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	// Go makes all mounts of the new namespace private.
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return max(1, exit.ExitCode())
	case err != nil:
		fmt.Fprintln(os.Stderr, "protocol: no mount namespace:", err)
		return 1
	}
	return 0
}

func run(m *testing.M) int {
	var err error
	if scratch, err = os.MkdirTemp("", "protocol-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(scratch)
	if err := prepare(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := stopShared(); err != nil {
		fmt.Fprintln(os.Stderr, "protocol: the shared server:", err)
		code = max(code, 1)
	}
	skips.print()
	return code
}

func prepare() error {
	if err := os.Chmod(scratch, 0o755); err != nil {
		return err
	}
	syscall.Umask(0)
	if sluiceBin = os.Getenv("SLUICE"); sluiceBin != "" {
		return nil
	}
	sluiceBin = filepath.Join(scratch, "sluice")
	args := []string{"build", "-o", sluiceBin}
	if raceEnabled {
		args = append(args, "-race")
	}
	out, err := exec.Command("go", append(args, "sluice/nfsd/cmd/sluice")...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("building the server: %w\n%s", err, out)
	}
	return nil
}

// skips remembers what was not tested, for the end of the run.
var skips skipList

type skipList struct {
	mu  sync.Mutex
	all []string
}

func (s *skipList) print() {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.all)
	for _, line := range s.all {
		fmt.Println("protocol: not tested:", line)
	}
}

// skip skips the test and has its reason listed at the end.
func skip(t testing.TB, format string, args ...any) {
	t.Helper()
	reason := fmt.Sprintf(format, args...)
	skips.mu.Lock()
	skips.all = append(skips.all, t.Name()+": "+reason)
	skips.mu.Unlock()
	t.Skip(reason)
}

func needRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		skip(t, "needs root")
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// value is must for calls with a result.
func value[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		must(t, err)
		return v
	}
}
