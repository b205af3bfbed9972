package seekdisk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// loopTries bounds the race with others who look for a free loop device.
const loopTries = 20

// attachLoop makes a block device of a file, with direct I/O. The device detaches
// itself when the last user closes it, the returned file included.
func attachLoop(file string) (*os.File, error) {
	back, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer back.Close()
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer control.Close()
	config := unix.LoopConfig{Fd: uint32(back.Fd()), Size: pageSize} // Size is that of a block
	config.Info.Flags = unix.LO_FLAGS_AUTOCLEAR | unix.LO_FLAGS_DIRECT_IO
	for range loopTries {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, os.NewSyscallError("LOOP_CTL_GET_FREE", err)
		}
		dev, err := os.OpenFile(fmt.Sprintf("/dev/loop%d", n), os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		if err = unix.IoctlLoopConfigure(int(dev.Fd()), &config); err == nil {
			return dev, nil
		}
		dev.Close()
		if !errors.Is(err, unix.EBUSY) {
			return nil, os.NewSyscallError("LOOP_CONFIGURE", err)
		}
	}
	return nil, errors.New("no free loop device")
}

// awaitDetached waits until a device has let go of its file.
func awaitDetached(name string) error {
	backing := filepath.Join("/sys/block", name, "loop/backing_file")
	for deadline := time.Now().Add(closeLimit); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(backing); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
	return fmt.Errorf("/dev/%s is still in use", name)
}

// configureQueue gives the device's request queue the properties of a disk.
func configureQueue(name string, o Options) error {
	set := func(attr, value string) error { return writeQueue(name, attr, value) }
	tags := fmt.Sprint(o.Tags)
	return errors.Join(
		set("rotational", "1"),
		// Without a scheduler nr_requests is what the driver holds; a scheduler
		// brings its own.
		set("scheduler", "none"),
		set("nr_requests", tags),
		set("scheduler", o.Scheduler),
		set("read_ahead_kb", fmt.Sprint(o.ReadAheadKB)))
}

func writeQueue(name, attr, value string) error {
	return os.WriteFile(filepath.Join("/sys/block", name, "queue", attr), []byte(value), 0)
}

// Schedulers lists the I/O schedulers that a loop device can have here.
func Schedulers() ([]string, error) {
	files, err := filepath.Glob("/sys/block/loop*/queue/scheduler")
	if err != nil || len(files) == 0 {
		return nil, errors.New("no loop device in /sys/block")
	}
	b, err := os.ReadFile(files[0])
	return strings.Fields(strings.NewReplacer("[", "", "]", "").Replace(string(b))), err
}
