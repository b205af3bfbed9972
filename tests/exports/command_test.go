package exports

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// sluice runs the program and returns its exit status and all that it says.
func sluice(t *testing.T, args ...string) (status int, said string) {
	t.Helper()
	cmd := exec.Command(sluiceBin, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	must(t, cmd.Start())
	kill := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	err := cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String()
}

// Bad input: a clear line, the exit status that tells what kind of mistake it
// was, and never a server.
func TestBadFiles(t *testing.T) {
	dir := tree(t, "x/")
	in := func(name string, text string) string {
		p := filepath.Join(dir, name)
		must(t, os.WriteFile(p, []byte(text), 0o644))
		return p
	}
	huge := in("huge", "")
	must(t, os.Truncate(huge, 100<<20))
	fifo := filepath.Join(dir, "fifo")
	must(t, syscall.Mkfifo(fifo, 0o644))
	loop := filepath.Join(dir, "loop")
	must(t, os.Symlink("loop", loop))
	x := dir + "/x"
	const cannotRead, hasErrors = 2, 1
	for _, row := range []struct {
		name, file string
		check      int
		says       string
	}{
		{"not there", dir + "/none", cannotRead, "no such file"},
		{"a directory", dir, cannotRead, "directory"},
		{"a FIFO", fifo, cannotRead, "regular"},
		{"a loop of links", loop, cannotRead, "symbolic links"},
		{"100 MiB", huge, cannotRead, "large"},
		{"a NUL byte", in("nul", x+" *(r\x00o)\n"), hasErrors, "nul:1:"},
		{"a line of 1 MiB", in("long", x+" "+strings.Repeat("h", 1<<20)+"\n"), hasErrors, "long:1:"},
		{"an unknown option", in("option", x+" *(ro,rootsquash)\n"), hasErrors, "root_squash"},
		{"an open quote", in("quote", "\""+x+" *(ro)\n"), hasErrors, "quote:1:"},
		{"a carriage return", in("dos", "\r\n"+x+" *(ro)\r\n"), hasErrors, "dos:1:"},
	} {
		t.Run(row.name, func(t *testing.T) {
			status, said := sluice(t, "exports", "check", row.file)
			if status != row.check || !strings.Contains(said, row.says) {
				t.Errorf("check: exit status %d, want %d and %q:\n%.500s", status, row.check, row.says, said)
			}
			if strings.Contains(said, "goroutine ") {
				t.Errorf("check crashes:\n%.500s", said)
			}
			status, said = sluice(t, "serve", "--exports", row.file, "--state-dir", dir+"/state", "--listen", "127.0.0.1:0", "--rpcbind", "off")
			if status != 2 || !strings.Contains(said, row.says) {
				t.Errorf("serve: exit status %d, want 2 and %q:\n%.500s", status, row.says, said)
			}
		})
	}
}

// --strict makes warnings count.
func TestStrict(t *testing.T) {
	dir := tree(t, "x/")
	file := dir + "/exports"
	for _, row := range []struct {
		text          string
		plain, strict int
	}{
		{"%s/x 10.77.0.0/16(ro)\n", 0, 0},
		{"%s/x 10.77.0.0/16(rw)\n", 0, 1},
		{"%s/x 10.77.0.1 (ro)\n", 0, 1},
		{"%[1]s/x *(ro,fsid=1)\n%[1]s *(ro,fsid=1)\n", 0, 1},
		{"%s/x 10.77.0.1(ro,nonsense)\n", 1, 1},
	} {
		must(t, os.WriteFile(file, fmt.Appendf(nil, row.text, dir), 0o644))
		plain, said := sluice(t, "exports", "check", file)
		strict, _ := sluice(t, "exports", "check", "--strict", file)
		if plain != row.plain || strict != row.strict {
			t.Errorf("%q: exit status %d and with --strict %d, want %d and %d:\n%s", row.text, plain, strict, row.plain, row.strict, said)
		}
	}
}

// exports.d: what cannot be read there is an error; what is no file of it, or goes
// while it is read, is not.
func TestExportsDir(t *testing.T) {
	nameService(t)
	dir := tree(t, "x/", "y/")
	must(t, os.RemoveAll("/etc/exports.d"))
	must(t, os.Mkdir("/etc/exports.d", 0o755))
	t.Cleanup(func() { os.RemoveAll("/etc/exports.d") })
	must(t, os.WriteFile("/etc/exports", []byte(dir+"/x *(ro)\n"), 0o644))
	must(t, os.WriteFile("/etc/exports.d/y.exports", []byte(dir+"/y *(ro)\n"), 0o644))
	must(t, os.Symlink("/etc/exports.d", "/etc/exports.d/itself"))
	must(t, os.Symlink("gone", "/etc/exports.d/gone"))
	if status, said := sluice(t, "exports", "check", "/etc/exports"); status != 0 || !strings.Contains(said, "2 exports") {
		t.Errorf("exit status %d:\n%s", status, said)
	}
	must(t, os.Symlink("/etc/exports.d", "/etc/exports.d/dir.exports"))
	if status, said := sluice(t, "exports", "check", "/etc/exports"); status != 0 || !strings.Contains(said, "dir.exports") {
		t.Errorf("a directory as a file: exit status %d:\n%s", status, said)
	}
	must(t, os.Symlink("gone", "/etc/exports.d/z.exports"))
	if status, said := sluice(t, "exports", "check", "/etc/exports"); status != 1 || !strings.Contains(said, "z.exports") {
		t.Errorf("a file that is not there: exit status %d:\n%s", status, said)
	}
}
