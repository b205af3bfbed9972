package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// sameContext says whether two tasks have the same kernel io_context (kcmp(2)).
// Two tasks without any do too.
func sameContext(a, b int) (bool, error) {
	const KCMP_IO = 5 // include/uapi/linux/kcmp.h
	r, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(a), uintptr(b), KCMP_IO, 0, 0, 0)
	if errno != 0 {
		return false, os.NewSyscallError("kcmp", errno)
	}
	return r == 0, nil
}

// tasks lists the threads of a process whose names begin with one of prefixes.
func tasks(pid int, prefixes ...string) (tids []int, err error) {
	comms, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/comm", pid))
	for _, comm := range comms {
		name, err := os.ReadFile(comm)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // it has just ended
		}
		if err != nil {
			return nil, err
		}
		for _, p := range prefixes {
			if !strings.HasPrefix(string(name), p) {
				continue
			}
			tid, err := strconv.Atoi(filepath.Base(filepath.Dir(comm)))
			if err != nil {
				return nil, err
			}
			tids = append(tids, tid)
		}
	}
	return tids, err
}

// distinct returns one task for each io_context.
func distinct(tids []int) (some []int, err error) {
	for _, tid := range tids {
		known := false
		for _, other := range some {
			same, err := sameContext(tid, other)
			if errors.Is(err, unix.ESRCH) {
				known = true // it has just ended
				continue
			}
			if err != nil {
				return nil, err
			}
			known = known || same
		}
		if !known {
			some = append(some, tid)
		}
	}
	return some, nil
}

// The tasks of the server that read from disks share one kernel io_context, unless
// it is told that each submitter shall have its own. They do have one: it is not
// that of a thread that reads nothing.
func TestOneIOContext(t *testing.T) {
	b := backends()[0]
	for mode, want := range map[string]struct{ min, max int }{"shared": {1, 1}, "private": {2, 4}} {
		t.Run(mode, func(t *testing.T) {
			d := modelled(t)
			s := startServer(t, b, []string{d.Dir()}, "--io-context", mode)
			c := dial(t, s)
			var lists [][]part
			for i, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
				f := makeFile(t, d.Dir(), name, uint64(i), 8<<20)
				f.lookUp(c)
				lists = append(lists, split(f, 0, f.size, 128<<10))
			}
			readers{conns: 8, depth: 8}.read(t, s, interleaved(lists...))
			tids, err := tasks(s.PID(), "sl-io", "iou-wrk-")
			must(t, err)
			contexts, err := distinct(tids)
			must(t, err)
			if len(tids) < 2 || len(contexts) < want.min || len(contexts) > want.max {
				t.Fatalf("%d io_contexts of the %d tasks that read; want %d to %d", len(contexts), len(tids), want.min, want.max)
			}
			servers, err := tasks(s.PID(), "sl-t")
			must(t, err)
			same, err := sameContext(servers[0], tids[0])
			must(t, err)
			if same {
				t.Error("a server thread has the same io_context as a submitter: is there none at all?")
			}
			if io, _ := s.io(d.Name()); io.Mode != mode || io.Contexts != len(contexts) {
				t.Errorf("status says mode %s, %d contexts; kcmp says %d", io.Mode, io.Contexts, len(contexts))
			}
		})
	}
}

// Without io_uring there is one warning that says so, and why.
func TestNoRingIsSaidOnce(t *testing.T) {
	s := startServer(t, backends()[1], []string{makeDir(t, scratch)})
	if n := strings.Count(s.Log.String(), "no io_uring"); n != 1 {
		t.Errorf("said %d times:\n%s", n, s.Log)
	}
	if log := s.Log.String(); !strings.Contains(log, "seccomp") {
		t.Errorf("the reason is not named:\n%s", log)
	}
}
