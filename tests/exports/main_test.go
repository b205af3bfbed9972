package exports

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

var (
	sluiceBin string // the program under test
	scratch   string // removed when all tests are done; world-readable
)

const insideNamespace = "SLUICE_EXPORTS_NAMESPACE"

// TestMain runs the tests again in namespaces of their own, so that mounts,
// addresses and name service files go away with them.
func TestMain(m *testing.M) {
	if os.Geteuid() != 0 {
		fmt.Println("exports: needs root for namespaces, mounts and client ports; skipped")
		os.Exit(0)
	}
	if os.Getenv(insideNamespace) == "" {
		os.Exit(enterNamespaces())
	}
	os.Exit(run(m))
}

func enterNamespaces() int {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), insideNamespace+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	// Go makes all mounts of the new namespace private.
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET}
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return max(1, exit.ExitCode())
	case err != nil:
		fmt.Println("exports: no namespaces here; skipped:", err)
	}
	return 0
}

func run(m *testing.M) int {
	if err := prepare(); err != nil {
		fmt.Fprintln(os.Stderr, "exports:", err)
		return 1
	}
	code := m.Run()
	_ = syscall.Unmount(scratch, syscall.MNT_DETACH)
	_ = os.Remove(scratch)
	return code
}

// prepare makes a file system to export, addresses to call from and the program.
func prepare() (err error) {
	if scratch, err = os.MkdirTemp("", "exports-"); err != nil {
		return err
	}
	if err := syscall.Mount("scratch", scratch, "tmpfs", 0, "mode=755"); err != nil {
		return err
	}
	if err := network(); err != nil {
		return err
	}
	sluiceBin = filepath.Join(scratch, "sluice")
	if out, err := exec.Command("go", "build", "-o", sluiceBin, "sluice/nfsd/cmd/sluice").CombinedOutput(); err != nil {
		return fmt.Errorf("building sluice: %w\n%s", err, out)
	}
	return nil
}

// network makes every address of the test networks this machine's own: a route
// of type local makes it answer to, and call from, all that it covers (ip-route(8)).
func network() error {
	for _, args := range [][]string{
		{"link", "set", "lo", "up"},
		{"route", "add", "local", "10.77.0.0/16", "dev", "lo"},
		{"-6", "route", "add", "local", "2001:db8::/32", "dev", "lo"},
	} {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %v: %w: %s", args, err, out)
		}
	}
	// IPv6 takes only listed addresses for its own when a socket is bound.
	return os.WriteFile("/proc/sys/net/ipv6/ip_nonlocal_bind", []byte("1"), 0)
}
