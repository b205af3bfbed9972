package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

var (
	sluiceBin string // the program under test
	peerBins  string // directory of the peers
)

// TestMain builds the programs, and is a gate at the end: every descriptor that the
// tests opened is closed again.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "bench-bin-")
	if err == nil {
		err = build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	before := descriptors()
	code := m.Run()
	for deadline := time.Now().Add(5 * time.Second); descriptors() > before && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	// One epoll and one eventfd are the runtime's, made when first needed.
	if after := descriptors(); code == 0 && after > before+2 {
		fmt.Printf("bench: %d descriptors after the tests, %d before\n", after, before)
		code = 1
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

func descriptors() int {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(list)
}

func build(dir string) error {
	peerBins = dir
	packages := []string{"sluice/tests/bench/spliceloop", "sluice/tests/bench/nullserver", "sluice/tests/bench/gonfs"}
	if sluiceBin = os.Getenv("SLUICE"); sluiceBin == "" {
		sluiceBin = filepath.Join(dir, "sluice")
		packages = append(packages, "sluice/nfsd/cmd/sluice")
	}
	out, err := exec.Command("go", append([]string{"build", "-o", dir + "/"}, packages...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// commandLimit bounds each run of the program; only a hang reaches it.
const commandLimit = 2 * time.Minute

// sluice runs the program and returns what it printed and its exit status.
func sluice(t testing.TB, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	cmd := exec.Command(sluiceBin, args...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(commandLimit, func() { cmd.Process.Kill() })
	err := cmd.Wait()
	timer.Stop()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errOut.String(), cmd.ProcessState.ExitCode()
}

// dataFile makes a file of size bytes in which every offset tells itself apart from
// its neighbours, in a directory that everybody may read.
func dataFile(t testing.TB, size int) string {
	t.Helper()
	dir := t.TempDir()
	for d := dir; len(d) > len(os.TempDir()); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(i ^ i>>8 ^ i>>16)
	}
	name := filepath.Join(dir, "data")
	if err := os.WriteFile(name, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}
