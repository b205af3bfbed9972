package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/tests/pattern"
	"sluice/tests/protocol/wire"
	"sluice/tests/seekdisk"
)

func baseName(path string) string { return filepath.Base(path) }

func stats(t *testing.T, d *seekdisk.Disk) seekdisk.Stats {
	t.Helper()
	st, err := d.Stats()
	must(t, err)
	return st
}

// changing is the situation of the tests here: a file of which the first part has
// been read in order, so that what follows is being read ahead.
func changing(t *testing.T, b backend, size, readFirst int64) (s *server, c *client, f file) {
	t.Helper()
	d := modelled(t)
	dir := makeDir(t, d.Dir())
	s = startServer(t, b, []string{d.Dir()})
	c = dial(t, s)
	f = makeFile(t, dir, "file", 1, size)
	f.fh = c.find(d.Dir(), baseName(dir), f.name)
	readers{conns: 1, depth: 4}.read(t, s, split(f, 0, readFirst, 128<<10))
	return s, c, f
}

// A file that becomes shorter ends where it ends now.
func TestShrinks(t *testing.T) {
	eachBackend(t, func(t *testing.T, b backend) {
		const cut = 8<<20 + 5000
		s, _, f := changing(t, b, 48<<20, 4<<20)
		must(t, os.Truncate(f.path(), cut))
		check := func(p part, r result) error {
			want := min(int64(p.n), max(0, cut-p.off))
			if r.status != wire.OK || int64(len(r.data)) != want || r.eof != (p.off+want >= cut) {
				return fmt.Errorf("READ at %d: status %d, %d bytes, eof %v; want %d", p.off, r.status, len(r.data), r.eof, want)
			}
			return pattern.Check(r.data, p.seed, p.off)
		}
		readers{conns: 2, depth: 8, check: check}.read(t, s, split(f, 4<<20, 20<<20, 128<<10))
	})
}

// A file that grows is read to its new end, the page that was its last included.
func TestGrows(t *testing.T) {
	eachBackend(t, func(t *testing.T, b backend) {
		const size, more = 8<<20 + 5000, 24 << 20
		s, _, f := changing(t, b, size, size)
		w, err := os.OpenFile(f.path(), os.O_WRONLY, 0)
		must(t, err)
		defer w.Close()
		// Written from a page's beginning, as the pattern is kept by pages.
		must(t, pattern.WriteAt(w, f.seed, 8<<20, more))
		must(t, w.Sync())
		f.drop(t)
		readers{conns: 2, depth: 8}.read(t, s, split(f, 0, 8<<20+more, 128<<10))
	})
}

// What is written while it is read ahead is what a later READ gets.
func TestOverwritten(t *testing.T) {
	eachBackend(t, func(t *testing.T, b backend) {
		const size = 32 << 20
		s, _, f := changing(t, b, size, 8<<20)
		w, err := os.OpenFile(f.path(), os.O_WRONLY, 0)
		must(t, err)
		defer w.Close()
		must(t, pattern.WriteAt(w, 2, 8<<20, size-8<<20))
		f.seed = 2
		readers{conns: 2, depth: 8}.read(t, s, split(f, 8<<20, size-8<<20, 128<<10))
	})
}

// A new file in place of the old one is another file: the new name has the new
// content, and the old handle the old content or none.
func TestReplaced(t *testing.T) {
	eachBackend(t, func(t *testing.T, b backend) {
		const size = 32 << 20
		s, c, f := changing(t, b, size, 4<<20)
		next := makeFile(t, f.dir, "next", 2, size)
		must(t, os.Rename(next.path(), f.path()))
		next.fh = c.find(filepath.Dir(f.dir), baseName(f.dir), f.name)
		old := func(p part, r result) error {
			if p.seed == f.seed && r.status == wire.ErrStale {
				return nil
			}
			return p.check(r)
		}
		readers{conns: 2, depth: 8, check: old}.read(t, s,
			interleaved(split(f, 4<<20, size-4<<20, 128<<10), split(next, 0, size, 128<<10)))
	})
}

// A file that is deleted in mid-stream is gone for clients, and the server soon
// lets go of it, so that its space is free.
func TestDeleted(t *testing.T) {
	eachBackend(t, func(t *testing.T, b backend) {
		s, c, f := changing(t, b, 48<<20, 4<<20)
		must(t, os.Remove(f.path()))
		old := func(p part, r result) error {
			if r.status == wire.ErrStale {
				return nil
			}
			return p.check(r)
		}
		readers{conns: 2, depth: 8, check: old}.read(t, s, split(f, 4<<20, 8<<20, 128<<10))
		eventually(t, 20*time.Second, func() error { return noDeletedFiles(s.PID()) })
		if status, _ := c.getattr(f.fh); status != wire.ErrStale {
			t.Errorf("GETATTR of a deleted file: status %d, want NFS3ERR_STALE", status)
		}
	})
}

// noDeletedFiles fails while a process has a deleted file open.
func noDeletedFiles(pid int) error {
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil || len(fds) == 0 {
		return errors.Join(err, errors.New("no descriptors"))
	}
	for _, fd := range fds {
		if target, err := os.Readlink(fd); err == nil && strings.HasPrefix(target, "/") && strings.HasSuffix(target, " (deleted)") {
			return fmt.Errorf("the server still has %s open", target)
		}
	}
	return nil
}

// A file system is not kept busy: a few seconds after the last READ it can be
// unmounted once its export is gone; here, all files of it are closed.
func TestIdleFilesAreClosed(t *testing.T) {
	eachBackend(t, func(t *testing.T, b backend) {
		s, _, f := changing(t, b, 16<<20, 16<<20)
		eventually(t, 30*time.Second, func() error {
			fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", s.PID()))
			for _, fd := range fds {
				if target, _ := os.Readlink(fd); target == f.path() {
					err = fmt.Errorf("%s is still open", target)
				}
			}
			return err
		})
	})
}
