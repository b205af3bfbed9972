package protocol

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"sluice/tests/protocol/wire"
)

// Row "never open FIFOs or devices": they are objects with attributes, and no
// call opens them. A FIFO shows it: a writer that does not want to wait gets
// ENXIO as long as nobody has opened it for reading (fifo(7)), and of the devices
// the server holds no descriptor but O_PATH ones.
func TestSpecialFiles(t *testing.T) {
	needRoot(t)
	s := sharedServer(t)
	c := dial(t, s)
	root := c.mount(treePath("pub"))
	for _, name := range []string{"fifo", "sock", "chr", "blk"} {
		fh := c.find(root, name)
		c.attrOf(fh)
		c.access(fh, wire.AccessAll)
		c.read(fh, 0, 1<<20)
		c.readlink(fh)
		c.readdir(fh, 0, 4096)
		if r := c.lookup(fh, "x"); r.status != wire.ErrNotdir {
			t.Errorf("LOOKUP in %s: status %d, want NFS3ERR_NOTDIR", name, r.status)
		}
		for _, flags := range descriptorsOf(t, s, treePath("pub", name)) {
			if !strings.HasSuffix(flags, "10000000") && !strings.HasSuffix(flags, "12000000") && !strings.HasSuffix(flags, "12400000") {
				t.Errorf("%s is open with flags %s, not O_PATH alone", name, flags)
			}
		}
	}
	fd, err := syscall.Open(treePath("pub", "fifo"), syscall.O_WRONLY|syscall.O_NONBLOCK, 0)
	if err == nil {
		syscall.Close(fd)
	}
	if err != syscall.ENXIO {
		t.Errorf("opening the FIFO for writing: %v, want ENXIO: somebody reads it", err)
	}
}

// descriptorsOf returns the octal flags of the server's descriptors of a path.
func descriptorsOf(t *testing.T, s *server, path string) (flags []string) {
	t.Helper()
	base := "/proc/" + itoa(s.cmd.Process.Pid)
	for _, e := range value(os.ReadDir(base + "/fd"))(t) {
		if target, err := os.Readlink(base + "/fd/" + e.Name()); err != nil || target != path {
			continue
		}
		info := value(os.ReadFile(base + "/fdinfo/" + e.Name()))(t)
		for line := range strings.Lines(string(info)) {
			if f, ok := strings.CutPrefix(line, "flags:"); ok {
				flags = append(flags, strings.TrimSpace(f))
			}
		}
	}
	return flags
}
