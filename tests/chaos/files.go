package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"sluice/tests/pattern"
	"sluice/tests/protocol/wire"
)

var fileFaults = []fault{
	{"file", "truncated and written again while it is read", truncatedFile},
	{"file", "replaced while it is read", replacedFile},
	{"file", "unlinked while it is read", unlinkedFile},
	{"file", "chmod between two reads", chmodFile},
}

const changingSize = 4 << 20

// hammer has a few clients call f until the trial's time is over, while change
// is called again and again.
func (t *trial) hammer(s *server, change func() error, f func(c *client, rnd *rand.Rand) error) {
	ctx := t.until()
	var all sync.WaitGroup
	for range 3 {
		c, rnd := t.dial(s), rand.New(rand.NewPCG(t.rnd.Uint64(), 0))
		all.Go(func() {
			for ctx.Err() == nil {
				if err := f(c, rnd); err != nil {
					t.errorf("%w", err)
					return
				}
			}
		})
	}
	for ctx.Err() == nil && !t.failed() {
		t.must(change())
		t.tried.Add(1)
	}
	all.Wait()
}

// truncatedFile: every byte of a reply is the file's, or zero where a page that
// was on its way has been cut off; replies stay in their bounds.
func truncatedFile(t *trial) {
	dir := t.tmpfs("data")
	s := t.serve(export(dir, "fsid=1"))
	src := t.makeSource(s, dir, "f", changingSize)
	f := get(os.OpenFile(dir+"/f", os.O_RDWR, 0))(t)
	t.after(func() { f.Close() })
	t.hammer(s, func() error {
		at := t.rnd.Int64N(changingSize)
		if err := f.Truncate(at); err != nil {
			return err
		}
		return pattern.WriteAt(f, src.seed, at, changingSize-at)
	}, func(c *client, rnd *rand.Rand) error {
		off, count := rnd.Int64N(changingSize), uint32(1+rnd.IntN(1<<20))
		got, err := c.read(src.fh, uint64(off), count)
		if err != nil {
			return err
		}
		t.checked.Add(int64(len(got.data)))
		if len(got.data) > int(count) || len(got.data) == 0 && !got.eof {
			return fmt.Errorf("READ of %d bytes: %d, end of file %v", count, len(got.data), got.eof)
		}
		want := make([]byte, len(got.data))
		pattern.Fill(want, src.seed, off)
		for i, b := range got.data {
			if b != want[i] && b != 0 {
				return fmt.Errorf("byte %d is %#x, want %#x or 0", off+int64(i), b, want[i])
			}
		}
		return nil
	})
}

// sameOrStale reads a file that may have gone: its bytes, or NFS3ERR_STALE.
func (t *trial) sameOrStale(c *client, src *source, rnd *rand.Rand) error {
	off, count := uint64(rnd.Int64N(src.size)), uint32(1+rnd.IntN(1<<20))
	got, err := c.read(src.fh, off, count)
	if errors.Is(err, status(wire.ErrStale)) {
		return nil
	}
	if err != nil {
		return err
	}
	t.checked.Add(int64(len(got.data)))
	return src.checkAt(got, span{off, count})
}

// current is the newest of the files of one name.
type current struct {
	sync.Mutex
	source
}

func (c *current) get() source {
	c.Lock()
	defer c.Unlock()
	return c.source
}

func (c *current) set(s source) {
	c.Lock()
	defer c.Unlock()
	c.source = s
}

// replacedFile: a handle means the file that it was given for; the name, the one
// that has it now.
func replacedFile(t *trial) {
	dir := t.tmpfs("data")
	s := t.serve(export(dir, "fsid=1"))
	c := t.dial(s)
	root := get(c.mount(dir))(t)
	var now current
	now.set(t.makeSource(s, dir, "f", changingSize/4))
	t.hammer(s, func() error {
		next := source{seed: t.rnd.Uint64(), size: changingSize / 4}
		if err := pattern.WriteFile(dir+"/new", next.seed, next.size); err != nil {
			return err
		}
		if err := os.Rename(dir+"/new", dir+"/f"); err != nil {
			return err
		}
		var err error
		if next.fh, err = c.lookup(root, "f"); err != nil {
			return err
		}
		old := now.get()
		if _, err := c.getattr(old.fh); !errors.Is(err, status(wire.ErrStale)) {
			return fmt.Errorf("the file that was replaced: %w, want NFS3ERR_STALE", err)
		}
		now.set(next)
		return nil
	}, func(c *client, rnd *rand.Rand) error {
		src := now.get()
		return t.sameOrStale(c, &src, rnd)
	})
}

func unlinkedFile(t *trial) {
	dir := t.tmpfs("data")
	s := t.serve(export(dir, "fsid=1"))
	c := t.dial(s)
	root := get(c.mount(dir))(t)
	var now current
	now.set(t.makeSource(s, dir, "f", changingSize/4))
	t.hammer(s, func() error {
		time.Sleep(3 * time.Millisecond)
		old := now.get()
		if err := os.Remove(dir + "/f"); err != nil {
			return err
		}
		if _, err := c.read(old.fh, 0, 100); !errors.Is(err, status(wire.ErrStale)) {
			return fmt.Errorf("READ of an unlinked file: %w, want NFS3ERR_STALE", err)
		}
		next := source{seed: t.rnd.Uint64(), size: changingSize / 4}
		if err := pattern.WriteFile(dir+"/f", next.seed, next.size); err != nil {
			return err
		}
		var err error
		if next.fh, err = c.lookup(root, "f"); err != nil {
			return err
		}
		now.set(next)
		return nil
	}, func(c *client, rnd *rand.Rand) error {
		src := now.get()
		return t.sameOrStale(c, &src, rnd)
	})
}

// chmodFile: what the mode is when a call is made decides, at once.
func chmodFile(t *trial) {
	dir := t.tmpfs("data")
	s := t.serve(export(dir, "fsid=1"))
	src := t.makeSource(s, dir, "f", 4<<20)
	c := t.dial(s)
	c.cred = wire.Sys(1000, 1000)
	t.hammer(s, func() error {
		off, count := uint64(t.rnd.Int64N(src.size)), uint32(1+t.rnd.IntN(1<<20))
		if err := os.Chmod(dir+"/f", 0o600); err != nil {
			return err
		}
		if _, err := c.read(src.fh, off, count); !errors.Is(err, status(wire.ErrAcces)) {
			return fmt.Errorf("READ of a file of mode 0600: %w, want NFS3ERR_ACCES", err)
		}
		if err := os.Chmod(dir+"/f", 0o644); err != nil {
			return err
		}
		got, err := c.read(src.fh, off, count)
		if err != nil {
			return fmt.Errorf("READ of a file of mode 0644: %w", err)
		}
		return src.checkAt(got, span{off, count})
	}, func(c *client, rnd *rand.Rand) error { // root and others, so that verdicts are kept and forgotten
		c.cred = wire.Sys(uint32(rnd.IntN(3))*1000, 0)
		_, err := c.read(src.fh, uint64(rnd.Int64N(src.size)), 4096)
		if errors.Is(err, status(wire.ErrAcces)) {
			return nil
		}
		return err
	})
}
