package protocol

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// sendPathEnv is the send path of servers whose test does not say another.
const sendPathEnv = "SLUICE_SEND_PATH"

const (
	readyLimit = 60 * time.Second
	stopLimit  = 20 * time.Second
)

// server is a running sluice and how to run it again.
type server struct {
	cmd     *exec.Cmd
	prefix  []string // a program to run it through
	args    []string
	state   string
	exports string // file
	addr    string
	log     *logBuffer
	done    chan error
}

// startServer serves with an exports file of the given lines, and checks when
// the test ends that the server ends well.
func startServer(t testing.TB, exports string, args ...string) *server {
	t.Helper()
	s := newServer(t, exports, args...)
	must(t, s.start("127.0.0.1:0"))
	t.Cleanup(func() { s.stopChecked(t) })
	return s
}

// newServer prepares a server without starting it.
func newServer(t testing.TB, exports string, args ...string) *server {
	t.Helper()
	dir := value(os.MkdirTemp(scratch, "server-"))(t)
	if path := os.Getenv(sendPathEnv); path != "" {
		args = append([]string{"--send-path", path}, args...) // the last one holds
	}
	s := &server{state: filepath.Join(dir, "state"), exports: filepath.Join(dir, "exports"), args: args}
	must(t, os.WriteFile(s.exports, []byte(exports), 0o644))
	must(t, os.Mkdir(s.state, 0o700))
	must(t, os.Chmod(dir, 0o755))
	return s
}

func (s *server) start(listen string) error {
	argv := append(append([]string{}, s.prefix...), sluiceBin, "serve", "--exports", s.exports, "--state-dir", s.state,
		"--listen", listen, "--rpcbind", "off")
	argv = append(argv, s.args...)
	s.cmd = exec.Command(argv[0], argv[1:]...)
	s.log = new(logBuffer)
	s.cmd.Stderr = s.log
	s.done = make(chan error, 1)
	if err := s.cmd.Start(); err != nil {
		return err
	}
	cmd, done := s.cmd, s.done
	go func() { done <- cmd.Wait() }()
	return s.awaitReady()
}

var readyLine = regexp.MustCompile(`msg=ready addresses=(\S+)`)

func (s *server) awaitReady() error {
	for deadline := time.Now().Add(readyLimit); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if m := readyLine.FindStringSubmatch(s.log.String()); m != nil {
			s.addr = m[1]
			return nil
		}
		select {
		case err := <-s.done:
			s.done <- err
			return fmt.Errorf("the server ended: %v\n%s", err, s.log)
		default:
		}
	}
	// SIGQUIT makes the Go runtime say where every goroutine is.
	_ = s.cmd.Process.Signal(syscall.SIGQUIT)
	time.Sleep(time.Second)
	_ = s.cmd.Process.Kill()
	return fmt.Errorf("the server does not get ready:\n%s", s.log)
}

// stop sends SIGTERM; anything but a clean end is an error.
func (s *server) stop() error {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return s.wait()
}

func (s *server) wait() error {
	select {
	case err := <-s.done:
		s.done <- err
		if err != nil || strings.Contains(s.log.String(), "DATA RACE") {
			return fmt.Errorf("%v\n%s", err, s.log)
		}
		return nil
	case <-time.After(stopLimit):
		_ = s.cmd.Process.Kill()
		return fmt.Errorf("the server does not stop:\n%s", s.log)
	}
}

func (s *server) stopChecked(t testing.TB) {
	t.Helper()
	if err := s.stop(); err != nil {
		t.Errorf("server at SIGTERM: %v", err)
	}
	if t.Failed() {
		t.Logf("the server's log:\n%s", s.log)
	}
}

// kill ends the server without warning.
func (s *server) kill() {
	_ = s.cmd.Process.Kill()
	<-s.done
	s.done <- nil
}

// restart kills the server and starts it again at the same address.
func (s *server) restart(t testing.TB) {
	t.Helper()
	s.kill()
	must(t, s.start(s.addr))
}

// reload puts another exports file in force.
func (s *server) reload(t testing.TB, exports string) {
	t.Helper()
	mark := len(s.log.String())
	must(t, os.WriteFile(s.exports, []byte(exports), 0o644))
	must(t, s.cmd.Process.Signal(syscall.SIGHUP))
	s.awaitLog(t, mark, "exports reloaded")
}

// awaitLog waits for text in the log after its first mark bytes.
func (s *server) awaitLog(t testing.TB, mark int, text string) {
	t.Helper()
	eventually(t, func() error {
		if !strings.Contains(s.log.String()[mark:], text) {
			return fmt.Errorf("no %q in the log:\n%s", text, s.log.String()[mark:])
		}
		return nil
	})
}

// eventually waits for f to succeed.
func eventually(t testing.TB, f func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if err = f(); err == nil {
			return
		}
	}
	t.Fatal(err)
}

// statusJSON is what the tests read of `sluice status --json`.
type statusJSON struct {
	PID        int      `json:"pid"`
	Addresses  []string `json:"addresses"`
	Exports    int      `json:"exports"`
	Privileged bool     `json:"privileged"`
	RPC        struct {
		Connections int
		Calls       map[string]uint64
	} `json:"rpc"`
	NFS struct {
		FilesOpen, PipesInUse int
		PipesMade             uint64
		Send                  struct {
			Inline, Spliced, Ringed, Copied, NoPipe uint64
			Note                                    string
		}
	} `json:"nfs"`
}

func (s *server) status() (statusJSON, error) {
	var out bytes.Buffer
	cmd := exec.Command(sluiceBin, "status", "--json", "--state-dir", s.state)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return statusJSON{}, fmt.Errorf("%w: %s", err, out.String())
	}
	var all []statusJSON
	if err := json.Unmarshal(out.Bytes(), &all); err != nil {
		return statusJSON{}, err
	}
	if len(all) != 1 {
		return statusJSON{}, fmt.Errorf("%d servers in the status, want 1", len(all))
	}
	return all[0], nil
}

// awaitIdle waits until no pipe is in use and only these connections are open:
// what a reply held comes back a moment after the client has it.
func (s *server) awaitIdle(connections int) error {
	var st statusJSON
	var err error
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if st, err = s.status(); err != nil || st.NFS.PipesInUse == 0 && st.RPC.Connections == connections {
			return err
		}
	}
	return fmt.Errorf("%d pipes in use, %d connections; want 0 and %d", st.NFS.PipesInUse, st.RPC.Connections, connections)
}

// anonKiB is the server's memory that is not file-backed, in KiB (proc(5), RssAnon).
func (s *server) anonKiB(t testing.TB) int {
	t.Helper()
	b := value(os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid)))(t)
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "RssAnon:" {
			return value(strconv.Atoi(f[1]))(t)
		}
	}
	t.Fatal("no RssAnon in /proc/PID/status")
	return 0
}

func (s *server) descriptors(t testing.TB) int {
	t.Helper()
	return len(value(os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.cmd.Process.Pid)))(t))
}

// logBuffer collects what a process prints.
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
