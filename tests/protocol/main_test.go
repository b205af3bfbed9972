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

	"golang.org/x/sys/unix"
)

var (
	sluiceBin string // the program under test
	scratch   string // removed when all tests are done; world-readable
)

// namespaceEnv holds the program under test for the run inside the namespaces.
const namespaceEnv = "SLUICE_PROTOCOL_NAMESPACE"

func TestMain(m *testing.M) {
	if sluiceBin = os.Getenv(namespaceEnv); sluiceBin != "" {
		os.Exit(run(m))
	}
	dir, err := os.MkdirTemp("", "protocol-bin-")
	if err == nil {
		err = prepare(dir)
	}
	code := 1
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "protocol:", err)
	case os.Geteuid() == 0:
		code = runInNamespaces()
	default:
		code = run(m)
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// runInNamespaces runs this program again in mount and network namespaces of its
// own, so that whatever is mounted goes away with it and no port is in use.
func runInNamespaces() int {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), namespaceEnv+"="+sluiceBin)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	// Go makes all mounts of the new namespace private.
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET}
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return max(1, exit.ExitCode())
	case err != nil:
		fmt.Fprintln(os.Stderr, "protocol: no namespaces of our own:", err)
		return 1
	}
	return 0
}

// prepare builds the program, with this machine's network and module cache.
func prepare(dir string) error {
	if err := os.Chmod(dir, 0o755); err != nil { // a test runs it as nobody
		return err
	}
	if sluiceBin = os.Getenv("SLUICE"); sluiceBin != "" {
		return nil
	}
	sluiceBin = filepath.Join(dir, "sluice")
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

func run(m *testing.M) int {
	syscall.Umask(0)
	var err error
	if scratch, err = os.MkdirTemp("", "protocol-"); err == nil {
		defer os.RemoveAll(scratch)
		err = os.Chmod(scratch, 0o755)
	}
	if err == nil && os.Getenv(namespaceEnv) != "" {
		err = loopbackUp()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "protocol:", err)
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

// loopbackUp starts the loopback device of a new network namespace.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_UP)
	return os.NewSyscallError("SIOCSIFFLAGS lo", unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req))
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
