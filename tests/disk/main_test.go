package disk

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"sluice/tests/disk/daemon"
	"sluice/tests/private"
	"sluice/tests/seekdisk"
)

// Environment for the run inside the namespaces. The first is also for users.
const (
	sluiceEnv = "SLUICE"
	noringEnv = "SLUICE_DISK_NORING"
)

// scratch is a directory on this machine's own disk, removed at the end.
var scratch string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	if !private.Inside() {
		dir, err := os.MkdirTemp("", "disk-bin-")
		if err == nil {
			defer os.RemoveAll(dir)
			err = build(dir)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "disk:", err)
			return 1
		}
	}
	if status, done := private.Again(); done {
		return status
	}
	if !private.Inside() {
		fmt.Println("disk: NOTHING WAS TESTED: it takes root")
		return 0
	}
	var err error
	if scratch, err = os.MkdirTemp("", "disk-"); err != nil {
		fmt.Fprintln(os.Stderr, "disk:", err)
		return 1
	}
	defer os.RemoveAll(scratch)
	code := m.Run()
	if err := closeShared(); err != nil {
		fmt.Fprintln(os.Stderr, "disk:", err)
		code = max(code, 1)
	}
	skips.print()
	return code
}

// build builds the programs while the network is there.
func build(dir string) error {
	bin, err := daemon.Build(dir, raceEnabled)
	if err != nil {
		return err
	}
	noring, err := daemon.BuildNoRing(dir)
	if err != nil {
		return err
	}
	return errors.Join(os.Setenv(sluiceEnv, bin), os.Setenv(noringEnv, noring))
}

// sharedDisk is a modelled disk that most tests use: a fast one, that the tests
// need not wait for.
var sharedDisk = sync.OnceValues(func() (*seekdisk.Disk, error) {
	return seekdisk.Start(scratch, seekdisk.Options{Size: 1 << 30, Rate: 400_000_000, Seek: time.Millisecond})
})

// modelled returns it in good health.
func modelled(t *testing.T) *seekdisk.Disk {
	t.Helper()
	d, err := sharedDisk()
	if err != nil {
		t.Fatal(err) // seekdisk's own tests say what is missing
	}
	t.Cleanup(func() { must(t, errors.Join(d.Release(), d.Heal())) })
	return d
}

func closeShared() error {
	d, err := sharedDisk()
	if err != nil {
		return nil // the tests have said so
	}
	return d.Close()
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
		fmt.Println("disk: not tested:", line)
	}
}

// skip skips the test and has its reason listed at the end.
func skip(t *testing.T, format string, args ...any) {
	t.Helper()
	reason := fmt.Sprintf(format, args...)
	skips.mu.Lock()
	skips.all = append(skips.all, t.Name()+": "+reason)
	skips.mu.Unlock()
	t.Skip(reason)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits for f to succeed.
func eventually(t testing.TB, limit time.Duration, f func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if err = f(); err == nil {
			return
		}
	}
	t.Fatal(err)
}
