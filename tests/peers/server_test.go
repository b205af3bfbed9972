package peers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/tests/guest"
)

const (
	port       = "2049"
	readyLimit = 60 * time.Second
	stopLimit  = 10 * time.Second
)

// server is a running sluice and how to run it again.
type server struct {
	t    *testing.T
	ns   *guest.Namespace
	args []string
	proc *guest.Proc // the latest life, with its log
}

// startServer serves with an exports file of the given lines. When the test
// ends, the server must end well on SIGTERM.
func startServer(t *testing.T, ns *guest.Namespace, exports string, args ...string) *server {
	t.Helper()
	file := filepath.Join(t.TempDir(), "exports")
	must(t, os.WriteFile(file, []byte(exports+"\n"), 0o644))
	s := &server{t: t, ns: ns}
	s.args = append([]string{"serve", "--exports", file, "--state-dir", t.TempDir(), "--listen", "0.0.0.0:" + port}, args...)
	s.start()
	t.Cleanup(s.stop)
	return s
}

func (s *server) start() {
	s.t.Helper()
	p, err := s.ns.Start(nil, sluiceBin, s.args...)
	must(s.t, err)
	s.proc = p
	must(s.t, p.WaitFor("ready", readyLimit))
}

// restart kills the server without warning and starts it again after pause.
func (s *server) restart(pause time.Duration) {
	s.t.Helper()
	s.proc.Kill()
	time.Sleep(pause)
	s.start()
}

func (s *server) stop() {
	if err := s.proc.Stop(stopLimit); err != nil {
		s.t.Errorf("server at SIGTERM: %v", err)
	}
	if s.t.Failed() {
		s.t.Logf("the server's log:\n%s", s.proc.Log)
	}
}

// exportLine exports dir to everyone, read-only, root being root.
func exportLine(dir string) string { return dir + " *(ro,insecure,no_root_squash)" }

// bootLimit bounds one guest's life.
const bootLimit = 3 * time.Minute

// guestScript runs a script in the guest and fails the test if it does not
// exit with 0. Functions and variables that scripts share come before it.
func guestScript(t *testing.T, g *guest.Guest, script string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), bootLimit)
	defer cancel()
	res, err := g.Run(ctx, scriptHead+script, nil)
	must(t, err)
	if res.Code != 0 {
		t.Fatalf("the guest's script ended with status %d:\n%s", res.Code, res.Output)
	}
	return res.Output
}

// scriptHead makes scripts stop at the first failure. "mnt DIR OPTIONS [NAME]"
// mounts DIR on /mnt/NAME (/mnt/n), with the options that the server advises
// and those given.
var scriptHead = fmt.Sprintf(`set -eu
mnt() {
	local at=/mnt/${3:-n}
	mkdir -p $at
	mount -t nfs -o "tcp,nolock,port=%[1]s,mountport=%[1]s,$2" %[2]s:"$1" $at
}
`, port, guest.ServerIP)

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
