package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

var (
	sluiceBin string // the program under test
	scratch   string // removed at the end; world-readable
)

// worldEnv names the directory with the programs, for the run inside the
// namespaces.
const worldEnv = "CHAOS_WORLD"

// inWorld runs f inside namespaces for mounts, network and processes, whose end
// is the end of all that was mounted and started there. It returns f's exit
// status. Outside, it builds the server and runs this program again.
func inWorld(race bool, f func() int) int {
	if spec := os.Getenv(faultyEnv); spec != "" {
		return runFaulty(spec)
	}
	dir := os.Getenv(worldEnv)
	var err error
	if dir == "" {
		var code int
		if code, err = enterWorld(race); err == nil {
			return code
		}
	} else if err = setUpWorld(dir); err == nil {
		return f()
	}
	fmt.Fprintln(os.Stderr, "chaos:", err)
	return 1
}

func enterWorld(race bool) (int, error) {
	if os.Geteuid() != 0 {
		return 0, errors.New("needs root")
	}
	dir, err := os.MkdirTemp("", "chaos-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if err := build(dir, race); err != nil {
		return 0, err
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), worldEnv+"="+dir)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS | unix.CLONE_NEWNET,
		Cloneflags: unix.CLONE_NEWPID, Pdeathsig: unix.SIGKILL}
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return max(1, exit.ExitCode()), nil
	}
	return 0, err
}

func build(dir string, race bool) error {
	if err := os.Chmod(dir, 0o755); err != nil { // a fault runs the server as nobody
		return err
	}
	args := []string{"build", "-o", filepath.Join(dir, "sluice")}
	if race {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, "sluice/nfsd/cmd/sluice")...).CombinedOutput(); err != nil {
		return fmt.Errorf("building the server: %w\n%s", err, out)
	}
	return os.Mkdir(filepath.Join(dir, "scratch"), 0o755)
}

// setUpWorld makes the namespaces usable: a /proc that shows their processes,
// files on a tmpfs, the loopback device.
func setUpWorld(dir string) error {
	syscall.Umask(0)
	sluiceBin, scratch = filepath.Join(dir, "sluice"), filepath.Join(dir, "scratch")
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return os.NewSyscallError("mount /proc", err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_UP)
	return os.NewSyscallError("SIOCSIFFLAGS lo", unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req))
}

// tmpfs mounts one at a new directory of the trial.
func (t *trial) tmpfs(name string) string {
	dir := t.path(name)
	t.must(os.MkdirAll(dir, 0o755))
	t.must(unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=755"))
	t.after(func() { unmount(dir) })
	return dir
}

func unmount(dir string) {
	for unix.Unmount(dir, unix.MNT_DETACH) == nil {
	}
}

// ext4 mounts a new file system in a file, with a page cache that can be cold.
func (t *trial) ext4(name string, mib int) (dir string) {
	image := t.path(name + ".img")
	dir = t.path(name)
	t.must(os.Mkdir(dir, 0o755))
	t.must(os.WriteFile(image, nil, 0o600))
	t.must(os.Truncate(image, int64(mib)<<20))
	t.sh("mkfs.ext4", "-q", "-F", image)
	t.mountImage(image, dir)
	return dir
}

func (t *trial) mountImage(image, dir string) {
	t.sh("mount", "-o", "loop", image, dir)
	t.after(func() { unmount(dir) })
}

func (t *trial) sh(name string, args ...string) string {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.fatalf("%s %q: %w: %s", name, args, err, out)
	}
	return string(out)
}

func atoi(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}
