package seekdisk

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// closeLimit bounds how long the end of a user of the disk is waited for.
const closeLimit = 10 * time.Second

// Disk is a running disk with an ext4 file system on it.
type Disk struct {
	o     Options
	drive *process
	dev   *os.File
	name  string // of the device: loop3
	back  string // where the FUSE file system is mounted
	dir   string // where the ext4 is
}

// Start makes a disk below dir, which must exist.
func Start(dir string, o Options) (*Disk, error) {
	o.setDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	d := &Disk{o: o, back: filepath.Join(dir, "drive"), dir: filepath.Join(dir, "fs")}
	if err := d.start(); err != nil {
		return nil, errors.Join(fmt.Errorf("seekdisk: %w", err), d.Close())
	}
	return d, nil
}

func (d *Disk) start() (err error) {
	for _, dir := range []string{d.back, d.dir} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if d.drive, err = startProcess(d.back, d.o); err != nil {
		return err
	}
	if d.dev, err = attachLoop(filepath.Join(d.back, diskName)); err != nil {
		return err
	}
	d.name = filepath.Base(d.dev.Name())
	// Nothing is left to be initialized later, which would be I/O that no test
	// asked for; nor is there a journal, for the same reason.
	out, err := exec.Command("mkfs.ext4", "-q", "-F", "-O", "^has_journal", "-T", "largefile",
		"-E", "lazy_itable_init=0,nodiscard", "-m", "0", d.Device()).CombinedOutput()
	if err != nil {
		return fmt.Errorf("mkfs.ext4: %w: %s", err, out)
	}
	if err = d.mount(); err != nil {
		return err
	}
	// Last, as the kernel sets some of it anew when a file system is mounted.
	if err = configureQueue(d.name, d.o); err != nil {
		return err
	}
	return d.Reset()
}

func (d *Disk) mount() error {
	err := unix.Mount(d.Device(), d.dir, "ext4", unix.MS_NOATIME, "noinit_itable")
	if err != nil {
		return &fs.PathError{Op: "mount", Path: d.dir, Err: err}
	}
	return os.Chmod(d.dir, 0o755)
}

// Dir is the root of the file system.
func (d *Disk) Dir() string { return d.dir }

// Name is the block device's name, as in /sys/block.
func (d *Disk) Name() string { return d.name }

// Device is the block device's file.
func (d *Disk) Device() string { return d.dev.Name() }

// Control is the control file's path (see controlNode).
func (d *Disk) Control() string { return filepath.Join(d.back, controlName) }

// Stats returns the counters since the start or the last Reset.
func (d *Disk) Stats() (s Stats, err error) {
	b, err := os.ReadFile(d.Control())
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	return s, err
}

func (d *Disk) command(format string, args ...any) error {
	return os.WriteFile(d.Control(), fmt.Appendf(nil, format+"\n", args...), 0)
}

// Reset sets the counters to zero.
func (d *Disk) Reset() error { return d.command("reset") }

// Stall lets all requests wait for a time, or until Release if it is 0.
//
// A disk that hangs holds up others than its users: sync(2) of any process.
func (d *Disk) Stall(t time.Duration) error {
	if t == 0 {
		return d.command("stall")
	}
	return d.command("stall %v", t)
}

// Release ends a stall.
func (d *Disk) Release() error { return d.command("release") }

// Fail makes reads that touch n bytes of the disk at off fail with EIO.
func (d *Disk) Fail(off, n int64) error { return d.command("fail %d %d", off, n) }

// FailFile is Fail for bytes of a file on the disk, rounded to whole blocks.
func (d *Disk) FailFile(name string, off, n int64) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	for b := off / pageSize; b*pageSize < off+n; b++ {
		at, err := fibmap(f.Fd(), int32(b))
		if err != nil {
			return &fs.PathError{Op: "FIBMAP", Path: name, Err: err}
		}
		if at == 0 { // a hole
			continue
		}
		if err := d.Fail(int64(at)*pageSize, pageSize); err != nil {
			return err
		}
	}
	return nil
}

// Heal ends what Fail and FailFile did.
func (d *Disk) Heal() error { return d.command("heal") }

// SetScheduler changes the I/O scheduler.
func (d *Disk) SetScheduler(name string) error {
	d.o.Scheduler = name
	return configureQueue(d.name, d.o)
}

// SetReadAhead changes the kernel's read-ahead; 0 is none.
func (d *Disk) SetReadAhead(kib int) error {
	d.o.ReadAheadKB = kib
	return configureQueue(d.name, d.o)
}

// Remount takes the file system off and puts it back, which leaves nothing of it
// in the page cache. Nobody may be using it.
func (d *Disk) Remount() error {
	if err := unix.Unmount(d.dir, 0); err != nil {
		return &fs.PathError{Op: "unmount", Path: d.dir, Err: err}
	}
	if err := d.mount(); err != nil {
		return err
	}
	return configureQueue(d.name, d.o)
}

// Close takes the disk apart, even if it is stalled. Stop its users first: if one
// is left, what he waits for fails, and Close says so.
func (d *Disk) Close() error {
	if d.drive == nil {
		return nil
	}
	var errs []error
	if d.dev != nil {
		errs = append(errs, d.command("release"), d.unmount(), d.dev.Close(), awaitDetached(d.name))
	}
	errs = append(errs, unix.Unmount(d.back, unix.MNT_DETACH), d.drive.wait())
	d.drive = nil
	return errors.Join(errs...)
}

// unmount takes the file system off, if it is there.
func (d *Disk) unmount() error {
	var err error
	for deadline := time.Now().Add(closeLimit); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		err = unix.Unmount(d.dir, 0)
		if err == nil || errors.Is(err, unix.EINVAL) { // not mounted
			return nil
		}
	}
	d.drive.kill()
	return errors.Join(&fs.PathError{Op: "unmount", Path: d.dir, Err: err}, unix.Unmount(d.dir, unix.MNT_DETACH))
}
