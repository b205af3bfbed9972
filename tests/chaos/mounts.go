package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"sluice/tests/pattern"
	"sluice/tests/protocol/wire"
)

var mountFaults = []fault{
	{"mount", "an exported file system unmounted and mounted again, under load", remounted},
	{"mount", "an export mounted over, under load", mountedOver},
}

// away are what a handle may get while its file system is not there.
var away = []status{wire.ErrStale, wire.ErrNoent, wire.ErrJukebox, 5 /* NFS3ERR_IO */}

func isAway(err error) bool {
	return slices.ContainsFunc(away, func(s status) bool { return errors.Is(err, s) })
}

// remounted: unmounting is not held up by the server, and the handles from before
// are good as soon as the file system is back.
func remounted(t *trial) {
	image := t.path("image")
	t.must(os.WriteFile(image, nil, 0o600))
	t.must(os.Truncate(image, 64<<20))
	t.sh("mkfs.ext4", "-q", "-F", image)
	dir := t.path("disk")
	t.must(os.Mkdir(dir, 0o755))
	loop := t.loopDevice(image)
	t.must(unix.Mount(loop, dir, "ext4", 0, ""))
	t.after(func() { unmount(dir) })
	s := t.serve(export(dir, ""))
	src := t.makeSource(s, dir, "f", 8<<20)
	c := t.dial(s)
	t.hammer(s, func() error {
		time.Sleep(time.Duration(t.rnd.IntN(30)) * time.Millisecond)
		if !eventually(settleLimit, func() bool { return unix.Unmount(dir, 0) == nil }) {
			return errors.New("the file system cannot be unmounted")
		}
		time.Sleep(time.Duration(t.rnd.IntN(30)) * time.Millisecond)
		if err := unix.Mount(loop, dir, "ext4", 0, ""); err != nil {
			return fmt.Errorf("mounting again: %w", err)
		}
		if !eventually(settleLimit, func() bool { _, err := c.getattr(src.fh); return err == nil }) {
			return errors.New("a handle from before is not good again")
		}
		return nil
	}, func(c *client, rnd *rand.Rand) error { return t.rightOrAway(c, &src, rnd) })
}

// loopDevice gives a file a block device for the time of the trial.
func (t *trial) loopDevice(image string) string {
	loop := t.sh("losetup", "-f", "--show", image)
	loop = loop[:len(loop)-1]
	t.after(func() { t.sh("losetup", "-d", loop) })
	return loop
}

func (t *trial) rightOrAway(c *client, src *source, rnd *rand.Rand) error {
	off, count := uint64(rnd.Int64N(src.size)), uint32(1+rnd.IntN(1<<20))
	got, err := c.read(src.fh, off, count)
	if isAway(err) {
		return nil
	}
	if err != nil {
		return err
	}
	t.checked.Add(int64(len(got.data)))
	return src.checkAt(got, span{off, count})
}

// mountedOver: a handle never leads into another file system than the one it was
// given for, and what is mounted now is what can be mounted from clients.
func mountedOver(t *trial) {
	dir := t.tmpfs("data")
	s := t.serve(export(dir, ""))
	below := t.makeSource(s, dir, "f", 4<<20)
	c := t.dial(s)
	seed := t.rnd.Uint64()
	t.hammer(s, func() error {
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=755"); err != nil {
			return err
		}
		if err := pattern.WriteFile(dir+"/f", seed, 1<<20); err != nil {
			return err
		}
		var fh []byte
		if !eventually(settleLimit, func() bool {
			var err error
			fh, err = c.find(dir, "f")
			return err == nil && !slices.Equal(fh, below.fh)
		}) {
			return errors.New("what is mounted over the export is not served")
		}
		above := source{fh, seed, 1 << 20}
		if err := t.rightOrAway(c, &above, t.rnd); err != nil {
			return err
		}
		if !eventually(settleLimit, func() bool { return unix.Unmount(dir, 0) == nil }) {
			return errors.New("what was mounted over the export cannot be unmounted")
		}
		if !eventually(settleLimit, func() bool { _, err := c.getattr(below.fh); return err == nil }) {
			return errors.New("a handle from before is not good again")
		}
		return nil
	}, func(c *client, rnd *rand.Rand) error { return t.rightOrAway(c, &below, rnd) })
}
