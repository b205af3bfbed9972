package exports

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	readyLimit = 60 * time.Second
	stopLimit  = 20 * time.Second
)

// server is a running sluice.
type server struct {
	t       testing.TB
	cmd     *exec.Cmd
	dir     string
	exports string // file
	port    string
	log     *logBuffer
	done    chan error
}

// startServer serves an exports file of the given text until the test ends.
func startServer(t testing.TB, exports string) *server {
	t.Helper()
	dir := value(os.MkdirTemp(scratch, "server-"))(t)
	must(t, os.Chmod(dir, 0o755))
	s := &server{t: t, dir: dir, exports: filepath.Join(dir, "exports")}
	must(t, os.WriteFile(s.exports, []byte(exports), 0o644))
	s.start()
	t.Cleanup(func() {
		s.stop()
		if t.Failed() {
			t.Logf("log of the server:\n%s", s.log)
		}
	})
	return s
}

func (s *server) command() *exec.Cmd {
	return exec.Command(sluiceBin, "serve", "--exports", s.exports, "--state-dir", filepath.Join(s.dir, "state"),
		"--listen", ":0", "--rpcbind", "off")
}

func (s *server) start() {
	s.t.Helper()
	s.run(s.command())
}

var readyLine = regexp.MustCompile(`msg=ready addresses=\S*:(\d+)`)

func (s *server) run(cmd *exec.Cmd) {
	s.t.Helper()
	s.cmd, s.log, s.done = cmd, new(logBuffer), make(chan error, 1)
	cmd.Stderr = s.log
	must(s.t, cmd.Start())
	done := s.done
	go func() { done <- cmd.Wait() }()
	for deadline := time.Now().Add(readyLimit); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		if m := readyLine.FindStringSubmatch(s.log.String()); m != nil {
			s.port = m[1]
			return
		}
		select {
		case err := <-s.done:
			s.done <- err
			s.t.Fatalf("the server ended: %v\n%s", err, s.log)
		default:
		}
	}
	_ = cmd.Process.Kill()
	s.t.Fatalf("the server does not get ready:\n%s", s.log)
}

func (s *server) stop() {
	s.t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.t.Fatal(err)
	}
	select {
	case err := <-s.done:
		s.done <- err
		if err != nil {
			s.t.Errorf("the server ended: %v\n%s", err, s.log)
		}
	case <-time.After(stopLimit):
		_ = s.cmd.Process.Kill()
		s.t.Errorf("the server does not stop:\n%s", s.log)
	}
}

func (s *server) restart() {
	s.t.Helper()
	s.stop()
	s.start()
}

// reload writes a new exports file in place of the old one, as editors do, and
// waits until it is in force.
func (s *server) reload(exports string) {
	s.t.Helper()
	seen := strings.Count(s.log.String(), "exports reloaded")
	s.replace(exports)
	s.t.Helper()
	s.await(func() bool { return strings.Count(s.log.String(), "exports reloaded") > seen }, "the exports are not reloaded")
}

// replace puts a new file in the old one's place by rename(2).
func (s *server) replace(exports string) {
	s.t.Helper()
	must(s.t, os.WriteFile(s.exports+"~", []byte(exports), 0o644))
	must(s.t, os.Rename(s.exports+"~", s.exports))
}

func (s *server) await(done func() bool, what string) {
	s.t.Helper()
	for deadline := time.Now().Add(readyLimit); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("%s:\n%s", what, s.log)
		}
	}
}

// descriptors counts what the server has open.
func (s *server) descriptors() int {
	s.t.Helper()
	return len(value(os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.cmd.Process.Pid)))(s.t))
}

// logBuffer collects what a process writes.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// value is must for a function that also returns something.
func value[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		must(t, err)
		return v
	}
}
