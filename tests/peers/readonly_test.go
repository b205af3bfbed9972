package peers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// writes are what root tries below a read-only export mounted read-write.
// Opening a file for writing asks ACCESS first, and the client itself turns
// the missing bit into EACCES, whatever the server.
var writes = []struct {
	cmd       string
	mayBeEACC bool
}{
	{"touch new", false},
	{"touch file", true},
	{"mkdir newdir", false},
	{"rmdir dir", false},
	{"rm -f file", false},
	{"mv file renamed", false},
	{"mv file dir/", false},
	{"ln file hard", false},
	{"ln -s file soft", false},
	{"mknod pipe p", false},
	{"mknod null c 1 3", false},
	{"chmod 600 file", false},
	{"chown 1 file", false},
	{"truncate -s 0 file", true},
	{"sh -c 'echo x >>file'", true},
	{"dd if=/dev/zero of=file count=1 conv=notrunc", true},
}

// TestKernelReadOnly lets root on a trusted client try to write.
func TestKernelReadOnly(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp(scratch, "readonly-")
	must(t, err)
	must(t, os.Chmod(dir, 0o777))
	must(t, os.Mkdir(filepath.Join(dir, "dir"), 0o777))
	must(t, os.WriteFile(filepath.Join(dir, "file"), []byte("precious"), 0o666))
	before := metadata(t, dir)

	g := newGuest(t)
	startServer(t, g.Namespace, exportLine(dir))
	script := fmt.Sprintf("mnt %s vers=3,rw\ncd /mnt/n\n", dir)
	for i, w := range writes {
		script += fmt.Sprintf("echo '%d:' $(%s 2>&1 && echo SUCCEEDED)\n", i, w.cmd)
	}
	out := guestScript(t, g, script)
	for i, w := range writes {
		_, after, _ := strings.Cut("\n"+out, fmt.Sprintf("\n%d:", i))
		line, _, _ := strings.Cut(after, "\n")
		ok := strings.Contains(line, "Read-only file system") || w.mayBeEACC && strings.Contains(line, "Permission denied")
		if !ok || strings.Contains(line, "SUCCEEDED") {
			t.Errorf("%s: got %q", w.cmd, line)
		}
	}
	if after := metadata(t, dir); after != before {
		t.Errorf("the directory changed:\n%s\nwas\n%s", after, before)
	}
}

// metadata includes ctime, which no write can leave alone.
func metadata(t *testing.T, dir string) string {
	t.Helper()
	out, err := exec.Command("find", dir, "-printf", "%p %i %y %m %U %G %s %n %T@ %C@\n").Output()
	must(t, err)
	return string(out)
}
