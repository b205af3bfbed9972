package exports

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sluice/tests/protocol/wire"
)

// status is what `sluice status` says of the server.
func (s *server) status() (st struct {
	Exports      int    `json:"exports"`
	ExportsError string `json:"exports_error"`
}) {
	s.t.Helper()
	out := runCommand(s.t, sluiceBin, "status", "--json", "--state-dir", filepath.Join(s.dir, "state"))
	var all []json.RawMessage
	must(s.t, json.Unmarshal([]byte(out), &all))
	must(s.t, json.Unmarshal(all[len(all)-1], &st))
	return st
}

func (s *server) hup() { must(s.t, s.cmd.Process.Signal(syscall.SIGHUP)) }

// A file with an error leaves the table as it was, and status says so until the
// file is right again.
func TestReloadRefused(t *testing.T) {
	dir := tree(t, "a/file", "b/file")
	good := fmt.Sprintf("%s/a *(ro)\n", dir)
	s := startServer(t, good)
	c := s.from(inside)
	fh := c.mount(dir + "/a")
	s.replace(fmt.Sprintf("%[1]s/b *(ro)\n%[1]s/a *(ro,nosuchoption)\n", dir))
	s.await(func() bool { return s.status().ExportsError != "" }, "status does not tell of the error")
	if st, _ := c.getattr(fh); st != wire.OK {
		t.Errorf("GETATTR under the table before: status %d", st)
	}
	if st, _ := c.mnt(dir + "/b"); st != wire.ErrAcces {
		t.Errorf("MNT of what only the bad file has: status %d", st)
	}
	if log := s.log.String(); !strings.Contains(log, "nosuchoption") || !strings.Contains(log, s.exports+":2:") {
		t.Error("the log does not say what is wrong where")
	}
	s.reload(fmt.Sprintf("%[1]s/a *(ro)\n%[1]s/b *(ro)\n", dir))
	if st := s.status(); st.ExportsError != "" || st.Exports != 2 {
		t.Errorf("after a good file: %+v", st)
	}
	c.mount(dir + "/b")
	must(t, os.Remove(s.exports)) // a file that has gone is no empty table
	s.await(func() bool { return s.status().ExportsError != "" }, "status does not tell that the file has gone")
	if st, _ := c.getattr(fh); st != wire.OK {
		t.Errorf("GETATTR with the file gone: status %d", st)
	}
}

// Who loses an export gets NFS3ERR_STALE at once, on the connection that he has;
// nobody else notices. What is narrowed or squashed otherwise holds at once too.
func TestReloadTakesEffect(t *testing.T) {
	dir := tree(t, "a/file", "b/file")
	must(t, os.Chmod(dir+"/a/file", 0o600))
	s := startServer(t, fmt.Sprintf("%[1]s/a %[2]s(ro,no_root_squash) %[3]s(ro)\n%[1]s/b *(ro)\n", dir, inside, other))
	one, two := s.from(inside), s.from(other)
	fh := one.find(one.mount(dir+"/a"), "file")
	b := two.mount(dir + "/b")
	if st, _ := one.read(fh); st != wire.OK {
		t.Fatalf("READ as root: status %d", st)
	}
	s.reload(fmt.Sprintf("%[1]s/a %[2]s(ro,root_squash) %[3]s(ro)\n%[1]s/b *(ro)\n", dir, inside, other))
	if st, _ := one.read(fh); st != wire.ErrAcces {
		t.Errorf("READ as root, now squashed: status %d", st)
	}
	s.reload(fmt.Sprintf("%[1]s/a %[3]s(ro)\n%[1]s/b *(ro)\n", dir, inside, other))
	if st, _ := one.read(fh); st != wire.ErrStale {
		t.Errorf("READ by who lost the export: status %d, want NFS3ERR_STALE", st)
	}
	if st, _ := two.getattr(fh); st != wire.OK {
		t.Errorf("GETATTR by who kept it: status %d", st)
	}
	s.reload(fmt.Sprintf("%[1]s/b *(ro)\n", dir))
	if st, _ := two.getattr(fh); st != wire.ErrStale {
		t.Errorf("GETATTR in an export that has gone: status %d, want NFS3ERR_STALE", st)
	}
	if st, _ := two.getattr(b); st != wire.OK {
		t.Errorf("GETATTR in an export that stayed: status %d", st)
	}
	s.reload(fmt.Sprintf("%[1]s/a *(ro)\n%[1]s/b *(ro)\n", dir))
	if st, _ := one.getattr(fh); st != wire.OK {
		t.Errorf("GETATTR in an export that is back: status %d", st)
	}
}

// A thousand reloads, by signal and by replacing the file, while reads go on: no
// read fails, and no descriptor is left open.
func TestThousandReloads(t *testing.T) {
	dir := tree(t, "a/file", "b/file")
	s := startServer(t, fmt.Sprintf("%[1]s/a *(ro)\n%[1]s/b *(ro)\n", dir))
	c := s.from(inside)
	fh := c.find(c.mount(dir+"/a"), "file")
	var stop atomic.Bool
	reads, done := 0, make(chan string, 1)
	go func() {
		for ; !stop.Load(); reads++ {
			if st, data := c.read(fh); st != wire.OK || data != "a/file" {
				done <- fmt.Sprintf("read %d: status %d, %q", reads, st, data)
				return
			}
		}
		done <- ""
	}()
	reloads := func() int { return strings.Count(s.log.String(), "exports reloaded") }
	run := func(n int) {
		for i := range n {
			before := reloads()
			if i%2 == 0 { // b comes and goes
				s.replace(fmt.Sprintf("%[1]s/a *(ro)\n", dir))
			} else {
				s.replace(fmt.Sprintf("%[1]s/a *(ro)\n%[1]s/b *(ro)\n", dir))
			}
			s.hup()
			s.await(func() bool { return reloads() > before }, "no reload")
		}
	}
	run(20)
	before := s.descriptors()
	run(1000)
	stop.Store(true)
	if failed := <-done; failed != "" {
		t.Error(failed)
	}
	// Files of an export that went are closed by the next sweeps.
	const slack = 8
	s.await(func() bool { return s.descriptors() <= before+slack }, fmt.Sprintf("descriptors: %d before", before))
	t.Logf("%d reads during 1,000 reloads; %d descriptors before, %d after", reads, before, s.descriptors())
}

// Ten thousand lines are in force in under a second, while reads go on.
func TestReloadTenThousand(t *testing.T) {
	dir := tree(t, "a/file")
	var text strings.Builder
	fmt.Fprintf(&text, "%s/a *(ro)\n", dir)
	for i := range 10_000 {
		sub := fmt.Sprintf("%s/many/%d/%d", dir, i/100, i)
		must(t, os.MkdirAll(sub, 0o755))
		fmt.Fprintf(&text, "%s 10.%d.%d.0/24(ro) 2001:db8:%x::/48(ro,root_squash)\n", sub, i/200, i%200, i)
	}
	s := startServer(t, fmt.Sprintf("%s/a *(ro)\n", dir))
	c := s.from(inside)
	fh := c.find(c.mount(dir+"/a"), "file")
	var stop atomic.Bool
	slowest, done := time.Duration(0), make(chan struct{})
	go func() {
		defer close(done)
		for !stop.Load() {
			start := time.Now()
			if st, _ := c.read(fh); st != wire.OK {
				t.Errorf("READ during the reload: status %d", st)
				return
			}
			slowest = max(slowest, time.Since(start))
		}
	}()
	must(t, os.WriteFile(s.exports, []byte(text.String()), 0o644))
	start := time.Now()
	s.hup()
	s.await(func() bool { return strings.Contains(s.log.String(), "exports=10001") }, "no reload")
	took := time.Since(start)
	stop.Store(true)
	<-done
	t.Logf("10,000 lines in force after %v; the slowest READ took %v", took, slowest)
	if took > time.Second && !raceEnabled {
		t.Errorf("the reload took %v", took)
	}
	if n := s.descriptors(); n > 300 {
		t.Errorf("%d descriptors with 10,000 exports", n)
	}
}

// All of it with few descriptors: each export can be used in turn.
func TestFewDescriptors(t *testing.T) {
	dir := tree(t)
	var text strings.Builder
	const exports = 1500
	for i := range exports {
		plant(t, dir, fmt.Sprintf("%d/file", i))
		fmt.Fprintf(&text, "%s/%d *(ro)\n", dir, i)
	}
	s := startServer(t, "")
	s.stop()
	must(t, os.WriteFile(s.exports, []byte(text.String()), 0o644))
	cmd := s.command()
	s.run(exec.Command("prlimit", append([]string{"--nofile=256:256"}, cmd.Args...)...))
	c := s.from(inside)
	var handles [][]byte
	for i := range exports {
		handles = append(handles, c.find(c.mount(fmt.Sprintf("%s/%d", dir, i)), "file"))
	}
	for i, fh := range handles {
		if st, data := c.read(fh); st != wire.OK || data != fmt.Sprintf("%d/file", i) {
			t.Fatalf("READ in export %d: status %d, %q", i, st, data)
		}
	}
	if n := s.descriptors(); n > 256 {
		t.Errorf("%d descriptors", n)
	}
}
