package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	readyLimit = 60 * time.Second
	stopLimit  = 30 * time.Second
)

// server is a server under test and how to run it again.
type server struct {
	t      *trial
	state  string
	args   []string
	prefix []string // a program to run it through
	// command makes the process, if it is to run elsewhere.
	command func(argv []string) *exec.Cmd
	log     logFile
	proc    *process // the latest life that we have started
	addr    string
	// pid is the process that serves, started by us or by its predecessor.
	pid atomic.Int64
}

// export is a line of an exports file for everybody.
func export(dir, options string) string {
	return dir + " *(ro,insecure,no_root_squash," + options + ")\n"
}

// serve runs a server until the trial ends; then it must end well.
func (t *trial) serve(exports string, args ...string) *server {
	s := t.newServer(exports, args...)
	t.must(s.start("127.0.0.1:0"))
	return s
}

func (t *trial) newServer(exports string, args ...string) *server {
	dir := get(os.MkdirTemp(t.dir, "server-"))(t)
	t.must(os.Chmod(dir, 0o755))
	s := &server{t: t, state: dir + "/state", log: logFile(dir + "/log"), args: append([]string{"--exports", dir + "/exports"}, args...)}
	t.must(os.WriteFile(dir+"/exports", []byte(exports), 0o644))
	t.must(os.Mkdir(s.state, 0o700))
	t.after(s.finish)
	return s
}

var readyLine = regexp.MustCompile(`msg=ready addresses=(\S+) .*pid=(\d+)`)

// start begins a life of the server and waits until it serves.
func (s *server) start(listen string) error {
	argv := append(append([]string{}, s.prefix...), sluiceBin, "serve", "--state-dir", s.state, "--listen", listen, "--rpcbind", "off")
	argv = append(argv, s.args...)
	before := len(readyLine.FindAllString(s.log.String(), -1))
	cmd := exec.Command(argv[0], argv[1:]...)
	if s.command != nil {
		cmd = s.command(argv)
	}
	proc, err := startProcess(cmd, s.log)
	if err != nil {
		return err
	}
	s.proc = proc
	for deadline := time.Now().Add(readyLimit); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if all := readyLine.FindAllStringSubmatch(s.log.String(), -1); len(all) > before {
			s.addr = all[len(all)-1][1]
			s.pid.Store(int64(atoi(all[len(all)-1][2])))
			return nil
		}
		select {
		case <-proc.done:
			return fmt.Errorf("the server does not start:\n%s", tail(s.log.String()))
		default:
		}
	}
	return fmt.Errorf("the server does not get ready:\n%s", tail(s.log.String()))
}

// restart kills the server without warning and starts it at the same address.
func (s *server) restart() {
	s.proc.kill()
	s.t.must(s.start(s.addr))
}

func (s *server) signal(sig syscall.Signal) { _ = syscall.Kill(int(s.pid.Load()), sig) }

// finish ends the server; it must exit with 0, and not have panicked before.
func (s *server) finish() {
	if s.proc == nil {
		return
	}
	if pid := int(s.pid.Load()); pid != s.proc.pid() { // a successor
		_ = syscall.Kill(pid, syscall.SIGTERM)
		if !eventually(stopLimit, func() bool { return s.gone(pid) }) {
			s.t.errorf("the successor does not stop")
		}
	} else if err := s.proc.stop(stopLimit); err != nil {
		s.t.errorf("the server at SIGTERM: %w", err)
	}
	if log := s.log.String(); s.t.failed() || strings.Contains(log, "DATA RACE") || strings.Contains(log, "goroutine ") {
		s.t.errorf("the server's log:\n%s", tail(log))
	}
}

// gone says that a process has ended, with all its threads. Those that a server
// has started are ours to wait for once it has gone: this is the first process of
// its namespace.
func (s *server) gone(pid int) bool {
	if pid == s.proc.pid() {
		select {
		case <-s.proc.done:
			return true
		default:
			return false
		}
	}
	var st syscall.WaitStatus
	got, err := syscall.Wait4(pid, &st, syscall.WNOHANG, nil)
	return got == pid || err != nil && syscall.Kill(pid, 0) != nil
}

func tail(log string) string { return log[max(0, len(log)-6000):] }

// eventually waits for f to be true.
func eventually(limit time.Duration, f func() bool) bool {
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if f() {
			return true
		}
	}
	return false
}

// statusJSON is what the suite reads of `sluice status --json`.
type statusJSON struct {
	PID int `json:"pid"`
	RPC struct {
		Connections, Waiting       int
		Accepted, Refused, Stalled uint64
	} `json:"rpc"`
	NFS struct {
		FilesOpen, PipesInUse int
	} `json:"nfs"`
}

func (s *server) status() (st statusJSON, err error) {
	out, err := exec.Command(sluiceBin, "status", "--json", "--state-dir", s.state).Output()
	if err != nil {
		return st, err
	}
	var all []statusJSON
	if err := json.Unmarshal(out, &all); err != nil {
		return st, err
	}
	for _, st := range all {
		if int64(st.PID) == s.pid.Load() {
			return st, nil
		}
	}
	return st, fmt.Errorf("process %d is not among %d servers in the status", s.pid.Load(), len(all))
}
