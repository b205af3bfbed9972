package protocol

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sluice/tests/protocol/wire"
)

// With --max-read 4M, FSINFO says so and a read of 4 MiB gets them, by every path,
// at any offset, also where a pipe holds no more than 1 MiB.
func TestLongestRead(t *testing.T) {
	must(t, makeTree())
	exports := treePath("pub") + " *(ro,insecure,no_root_squash,no_subtree_check)\n"
	for _, path := range []string{"auto", "splice", "uring", "copy"} {
		s := startServer(t, exports, "--send-path", path, "--max-read", "4M")
		c := dial(t, s)
		fh := c.find(c.mount(treePath("pub")), "big")
		for _, off := range []int{0, 1, 4097, bigSize - 1<<20} {
			want := pattern(off, min(4<<20, bigSize-off))
			if r := c.read(fh, uint64(off), 4<<20); r.status != wire.OK || !bytes.Equal(r.data, want) || r.eof != (off+len(want) == bigSize) {
				t.Errorf("%s, at %d: status %d, %d bytes of %d, eof %v", path, off, r.status, len(r.data), len(want), r.eof)
			}
		}
	}
}

// Without io_uring, refused by the kernel or switched off, --send-path uring
// serves, says once that it splices, and ends well.
func TestUringWithoutUring(t *testing.T) {
	must(t, makeTree())
	noring := filepath.Join(value(makeDir("noring-"))(t), "noring")
	if out, err := exec.Command("go", "build", "-o", noring, "sluice/tests/disk/noring").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, how := range []struct {
		name   string
		prefix []string
		args   []string
	}{
		{"seccomp", []string{noring}, nil},
		{"switched off", nil, []string{"--io-uring", "off"}},
	} {
		t.Run(how.name, func(t *testing.T) {
			s := newServer(t, treePath("pub")+" *(ro,insecure,no_root_squash,no_subtree_check)\n", append(how.args, "--send-path", "uring")...)
			s.prefix = how.prefix
			must(t, s.start("127.0.0.1:0"))
			c := dial(t, s)
			fh := c.find(c.mount(treePath("pub")), "big")
			for i := range 3 {
				if r := c.read(fh, uint64(i), 1<<20); !bytes.Equal(r.data, pattern(i, 1<<20)) {
					t.Errorf("READ: status %d, %d bytes, or wrong ones", r.status, len(r.data))
				}
			}
			st := value(s.status())(t)
			if st.NFS.Send.Spliced != 3 || st.NFS.Send.Ringed != 0 || !strings.Contains(st.NFS.Send.Note, "no io_uring") {
				t.Errorf("%+v", st.NFS.Send)
			}
			if n := strings.Count(s.log.String(), "send path: no io_uring"); n != 1 {
				t.Errorf("said %d times:\n%s", n, s.log)
			}
			must(t, s.stop())
		})
	}
}

// `sluice status` shows the path, what took which, the worker bound and for how
// long threads were held.
func TestStatusShowsSendPath(t *testing.T) {
	must(t, makeTree())
	s := startServer(t, treePath("pub")+" *(ro,insecure,no_root_squash,no_subtree_check)\n", "--send-path", "uring")
	c := dial(t, s)
	fh := c.find(c.mount(treePath("pub")), "big")
	for range 4 {
		c.read(fh, 0, 1<<20)
	}
	c.read(fh, 0, 10)
	out, err := exec.Command(sluiceBin, "status", "--state-dir", s.state).CombinedOutput()
	must(t, err)
	for _, want := range []string{"send path    uring", "1 in the batch, 0 spliced, 4 through a ring, 0 copied", "1 rings, at most ", "threads held by sends: <="} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if st := fmt.Sprint(value(s.status())(t).NFS.Send.Ringed); st != "4" {
		t.Errorf("%s reads through a ring in the JSON", st)
	}
}
