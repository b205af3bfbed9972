package protocol

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/tests/protocol/wire"
)

// sluice runs a command line to its end. SIGTERM ends what would serve.
func sluice(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, sluiceBin, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if ctx.Err() != nil {
		t.Errorf("sluice %v does not end:\n%s", args, errs.String())
	}
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// Bad input is exit status 2 and one line that names what is wrong.
func TestBadInput(t *testing.T) {
	must(t, makeTree())
	dir := value(makeDir("bad-"))(t)
	exports := filepath.Join(dir, "exports")
	must(t, os.WriteFile(exports, []byte(treePath("pub")+" *(ro)\n"), 0o644))
	file := treePath("pub/hello")
	busy := value(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer busy.Close()
	state, free := filepath.Join(dir, "state"), "127.0.0.1:0"
	serve := func(args ...string) []string { return append([]string{"serve", "--rpcbind", "off"}, args...) }
	for _, row := range []struct {
		name string
		args []string
		says []string // all of them in the line
	}{
		{"missing exports file", serve("--exports", dir+"/none", "--listen", free, "--state-dir", state), []string{dir + "/none", "no such file"}},
		{"exports file is a directory", serve("--exports", dir, "--listen", free, "--state-dir", state), []string{dir, "directory"}},
		{"port in use", serve("--exports", exports, "--listen", busy.Addr().String(), "--state-dir", state), []string{busy.Addr().String(), "in use"}},
		{"no such directory", serve(dir+"/none", "--listen", free, "--state-dir", state), []string{dir + "/none", "no such file"}},
		{"file for a directory", serve(file, "--listen", free, "--state-dir", state), []string{file, "not a directory"}},
		{"directory and exports", serve(dir, "--exports", exports, "--listen", free, "--state-dir", state), []string{"--exports"}},
		{"state dir in a file", serve(dir, "--listen", free, "--state-dir", file+"/state"), []string{file, "not a directory"}},
		{"state dir not writable", serve(dir, "--listen", free, "--state-dir", "/proc/none"), []string{"/proc/none"}},
		{"unknown flag", serve("--nonsense"), []string{"--nonsense"}},
		{"unknown command", []string{"nonsense"}, []string{"nonsense"}},
		{"bad number of threads", serve("--threads", "many"), []string{"threads", "many"}},
		{"negative threads", serve("--threads", "-1", dir), []string{"threads", "-1"}},
		{"bad send path", serve("--send-path", "pigeon", dir), []string{"pigeon", "auto", "splice", "uring", "copy"}},
		{"bad max read", serve("--max-read", "5K", "--state-dir", state, "--listen", free, dir), []string{"power of two"}},
		{"max read without number", serve("--max-read", "K", dir), []string{"--max-read", `"K"`}},
		{"bad listen address", serve("--listen", "here", "--state-dir", state, dir), []string{"--listen", "here", "ADDR:PORT"}},
		{"host name to listen on", serve("--listen", "localhost:2049", "--state-dir", state, dir), []string{"--listen", "localhost", "IP address"}},
		{"bad log level", serve("--log-level", "loud", dir), []string{"loud", "debug"}},
		{"bad log format", serve("--log-format", "xml", dir), []string{"xml", "json"}},
		{"metrics port in use", serve("--metrics", busy.Addr().String(), "--listen", free, "--state-dir", state, dir), []string{"--metrics", "in use"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			code, _, stderr := sluice(t, row.args...)
			if code != 2 {
				t.Errorf("exit status %d, want 2:\n%s", code, stderr)
			}
			line := lastLine(t, stderr)
			for _, want := range row.says {
				if !strings.Contains(line, want) {
					t.Errorf("the message does not say %q: %s", want, line)
				}
			}
		})
	}
}

// lastLine returns the message; only lines of the log may be before it.
func lastLine(t *testing.T, stderr string) string {
	t.Helper()
	if strings.Contains(stderr, "goroutine ") || strings.Contains(stderr, "panic") {
		t.Errorf("a stack trace:\n%s", stderr)
	}
	var lines []string
	for line := range strings.Lines(stderr) {
		if !strings.HasPrefix(line, "time=") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	if len(lines) != 1 || !strings.HasPrefix(lines[0], "sluice: ") {
		t.Errorf("want one line that begins with the program's name:\n%s", stderr)
	}
	return strings.Join(lines, "\n")
}

// A mistake in the exports file is told with file, line and column.
func TestBadExportsOption(t *testing.T) {
	must(t, makeTree())
	dir := value(makeDir("bad-"))(t)
	exports := filepath.Join(dir, "exports")
	first := treePath("pub") + " *(ro)\n"
	second := treePath("squash") + " *(ro,bogus)\n"
	must(t, os.WriteFile(exports, []byte(first+second), 0o644))
	code, _, stderr := sluice(t, "serve", "--rpcbind", "off", "--exports", exports, "--listen", "127.0.0.1:0", "--state-dir", dir+"/state")
	at := fmt.Sprintf("%s:2:%d: error:", exports, strings.Index(second, "bogus")+1)
	if code != 2 || !strings.Contains(stderr, at) || !strings.Contains(stderr, `"bogus"`) || strings.Contains(stderr, "goroutine ") {
		t.Errorf("exit status %d, want 2 and %q with the option's name:\n%s", code, at, stderr)
	}
}

// An exports file that the server may not read.
func TestUnreadableExports(t *testing.T) {
	needRoot(t)
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		skip(t, "setpriv is not installed")
	}
	dir := value(makeDir("bad-"))(t)
	exports := filepath.Join(dir, "exports")
	must(t, os.WriteFile(exports, nil, 0o600))
	cmd := exec.Command(setpriv, "--reuid", "nobody", "--regid", "nogroup", "--clear-groups", sluiceBin, "serve", "--rpcbind", "off",
		"--exports", exports, "--listen", "127.0.0.1:0", "--state-dir", dir+"/state")
	out, _ := cmd.CombinedOutput()
	if line := lastLine(t, string(out)); cmd.ProcessState.ExitCode() != 2 || !strings.Contains(line, exports) || !strings.Contains(line, "permission denied") {
		t.Errorf("exit status %d, want 2 and the file's name:\n%s", cmd.ProcessState.ExitCode(), out)
	}
}

// An export whose directory does not exist is left out with a warning, as by
// exportfs; it is served once it is there.
func TestMissingExportDirectory(t *testing.T) {
	must(t, makeTree())
	dir := value(makeDir("late-"))(t)
	late := filepath.Join(dir, "late")
	s := startServer(t, late+" *(ro,insecure,no_subtree_check)\n"+treePath("pub")+" *(ro,insecure,no_subtree_check)\n")
	if log := s.log.String(); !strings.Contains(log, late) || !strings.Contains(strings.ToLower(log), "warn") {
		t.Errorf("no warning of %s:\n%s", late, log)
	}
	c := dial(t, s)
	c.mount(treePath("pub"))
	if status, _, _ := c.mnt(late); status == 0 {
		t.Error("what is not there is mounted")
	}
	must(t, os.Mkdir(late, 0o755))
	if status, _, _ := c.mnt(late); status != 0 {
		t.Errorf("MNT once the directory is there: status %d", status)
	}
}

// The server says when it is ready and where, and on standard output how to
// mount what it serves.
func TestReadyLine(t *testing.T) {
	must(t, makeTree())
	if ipv6, _ := os.ReadFile("/proc/net/if_inet6"); len(ipv6) == 0 {
		skip(t, "no IPv6")
	}
	s := newServer(t, treePath("pub")+" *(ro,insecure,no_subtree_check)\n", "--listen", "[::1]:0")
	must(t, s.start("127.0.0.1:0"))
	t.Cleanup(func() { s.stopChecked(t) })
	line := ""
	for l := range strings.Lines(s.log.String()) {
		if strings.Contains(l, "msg=ready") {
			line = l
		}
	}
	if !strings.Contains(line, "127.0.0.1:") || !strings.Contains(line, "[::1]:") {
		t.Errorf("the ready line does not name both addresses: %s", line)
	}
}

// `sluice status --json` is a list with each server and its figures; without a
// server it fails and says so.
func TestStatus(t *testing.T) {
	must(t, makeTree())
	s := startServer(t, treePath("pub")+" *(ro,insecure,no_root_squash,no_subtree_check)\n")
	c := dial(t, s)
	fh := c.find(c.mount(treePath("pub")), "hello")
	c.read(fh, 0, 100)
	st := value(s.status())(t)
	if st.PID != s.cmd.Process.Pid || !slices.Equal(st.Addresses, []string{s.addr}) || st.Exports != 1 || st.Privileged != (os.Geteuid() == 0) {
		t.Errorf("status %+v", st)
	}
	for name, want := range map[string]uint64{"mount/3/MNT": 1, "nfs/3/LOOKUP": 1, "nfs/3/READ": 1} {
		if got := st.RPC.Calls[name]; got != want {
			t.Errorf("%d calls of %s, want %d", got, name, want)
		}
	}
	if st.RPC.Connections != 1 || st.NFS.Send.Inline != 1 {
		t.Errorf("%d connections, %d small reads; want 1 and 1", st.RPC.Connections, st.NFS.Send.Inline)
	}
	code, out, _ := sluice(t, "status", "--state-dir", s.state)
	if code != 0 || !strings.Contains(out, s.addr) {
		t.Errorf("plain status: exit status %d\n%s", code, out)
	}
	code, _, stderr := sluice(t, "status", "--json", "--state-dir", treePath())
	if code != 1 || !strings.HasPrefix(stderr, "sluice: no server") {
		t.Errorf("without a server: exit status %d: %s", code, stderr)
	}
}

// SIGHUP puts a changed exports file in force; one with a mistake leaves the old
// one in force, and status says why.
func TestReload(t *testing.T) {
	must(t, makeTree())
	pub, squash := treePath("pub")+" *(ro,insecure,no_subtree_check)\n", treePath("squash")+" *(ro,insecure,no_subtree_check)\n"
	s := startServer(t, pub)
	c := dial(t, s)
	served := func(name string) bool {
		status, _, _ := c.mnt(treePath(name))
		return status == 0
	}
	if !served("pub") || served("squash") {
		t.Error("at first: not the exports of the file")
	}
	s.reload(t, pub+squash)
	if !served("pub") || !served("squash") {
		t.Error("after one was added: not both served")
	}
	mark := len(s.log.String())
	must(t, os.WriteFile(s.exports, []byte(pub+treePath("squash")+" *(ro,bogus)\n"), 0o644))
	must(t, s.cmd.Process.Signal(syscall.SIGHUP))
	s.awaitLog(t, mark, "bogus")
	s.awaitLog(t, mark, "not reloaded")
	if !served("pub") || !served("squash") {
		t.Error("a file with a mistake has changed what is served")
	}
	_, out, _ := sluice(t, "status", "--json", "--state-dir", s.state)
	if !strings.Contains(out, "exports_error") {
		t.Errorf("status does not tell of the mistake:\n%s", out)
	}
	s.reload(t, squash)
	if served("pub") || !served("squash") {
		t.Error("after one was taken away: not the exports of the file")
	}
}

// SIGTERM and SIGINT end an idle server at once, with 0, although clients are
// connected.
func TestTerminate(t *testing.T) {
	must(t, makeTree())
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		s := newServer(t, treePath("pub")+" *(ro,insecure,no_subtree_check)\n")
		must(t, s.start("127.0.0.1:0"))
		c := dial(t, s)
		c.mount(treePath("pub"))
		begin := time.Now()
		must(t, s.cmd.Process.Signal(sig))
		must(t, s.wait())
		if d := time.Since(begin); d > 3*time.Second {
			t.Errorf("%v: ended after %v", sig, d)
		}
		if _, err := wire.Dial(s.addr); err == nil {
			t.Errorf("%v: something still listens", sig)
		}
	}
}

// Serving a directory without configuration: for this machine alone, read-only,
// from privileged ports.
func TestServeDirectory(t *testing.T) {
	must(t, makeTree())
	s := newServer(t, "")
	cmd := exec.Command(sluiceBin, "serve", treePath("pub"), "--listen", "127.0.0.1:0", "--state-dir", s.state, "--rpcbind", "off")
	var out logBuffer
	s.log = new(logBuffer)
	cmd.Stdout, cmd.Stderr = &out, s.log
	must(t, cmd.Start())
	s.cmd, s.done = cmd, make(chan error, 1)
	go func() { s.done <- cmd.Wait() }()
	t.Cleanup(func() { s.stopChecked(t) })
	must(t, s.awaitReady())
	if c := dialPrivileged(t, s); len(c.mount(treePath("pub"))) == 0 {
		t.Error("no handle")
	}
	if status, _, _ := dial(t, s).mnt(treePath("pub")); status != wire.ErrAcces {
		t.Errorf("MNT from a high port: status %d, want MNT3ERR_ACCES", status)
	}
	port := s.addr[strings.LastIndexByte(s.addr, ':')+1:]
	for _, want := range []string{"mount -t nfs", "vers=3", "port=" + port, "mountport=" + port, "127.0.0.1:" + treePath("pub")} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the advice does not say %q:\n%s", want, out.String())
		}
	}
}
