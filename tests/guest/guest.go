package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The two ends of a guest's network.
const (
	ServerIP = "10.99.0.1" // the tap device, where the server listens
	ClientIP = "10.99.0.2" // the guest
)

// Options are a guest's properties.
type Options struct {
	// MemMiB is the guest's memory; 0 means 512.
	MemMiB int
}

// Guest is a Namespace with a tap device on which a User Mode Linux can be
// booted, one at a time.
type Guest struct {
	*Namespace
	dir string // scripts, modules tree, uml_dir
	mem int
}

// Result is what a script left behind.
type Result struct {
	Output string // standard output and standard error
	Code   int    // exit status
}

// New makes the namespace and its tap device; nothing is booted yet.
func New(o Options) (*Guest, error) {
	if err := Available(); err != nil {
		return nil, err
	}
	ns, err := NewNamespace()
	if err != nil {
		return nil, err
	}
	g := &Guest{Namespace: ns, mem: o.MemMiB}
	if g.mem == 0 {
		g.mem = 512
	}
	if err := g.setUp(); err != nil {
		g.Close()
		return nil, err
	}
	return g, nil
}

func (g *Guest) setUp() (err error) {
	if g.dir, err = os.MkdirTemp("", "guest-"); err != nil {
		return err
	}
	// modprobe -d DIR looks in DIR/lib/modules. (The guest has the host's
	// /lib/modules, which has none for the guest's kernel.)
	lib := filepath.Join(g.dir, "lib")
	if err := os.Mkdir(lib, 0o755); err != nil {
		return err
	}
	if err := os.Symlink(modulesDir, filepath.Join(lib, "modules")); err != nil {
		return err
	}
	err = g.Sh("ip tuntap add dev tap0 mode tap && ip addr add " + ServerIP + "/24 dev tap0 && ip link set tap0 up")
	if err != nil {
		return fmt.Errorf("%w: %v", ErrUnavailable, err)
	}
	return nil
}

// Close removes what New made. Stop servers first.
func (g *Guest) Close() error {
	err := g.Namespace.Close()
	return errors.Join(err, os.RemoveAll(g.dir))
}

// Run boots the guest, runs script with bash as root in it and powers it off.
// The script finds tmpfs on /run and /mnt, the NFS client's modules loaded
// and the network up; anything else it writes to is the host's. Its output
// goes to console too, if that is not nil, as it appears.
//
// A script that fails is not an error: see Result.Code. Errors are a guest
// that does not boot, or that ctx ended.
func (g *Guest) Run(ctx context.Context, script string, console io.Writer) (Result, error) {
	exitFile := filepath.Join(g.dir, "exit")
	os.Remove(exitFile)
	if err := os.WriteFile(filepath.Join(g.dir, "script"), []byte(script), 0o644); err != nil {
		return Result{}, err
	}
	init := filepath.Join(g.dir, "init")
	if err := os.WriteFile(init, []byte(g.initScript()), 0o755); err != nil {
		return Result{}, err
	}
	var kernel bytes.Buffer
	out := &Log{Tee: console}
	bootErr := g.boot(ctx, init, out, &kernel)
	res := Result{Output: out.String(), Code: -1}
	if ctx.Err() != nil {
		return res, fmt.Errorf("guest: %w\n%s%s", ctx.Err(), res.Output, kernel.String())
	}
	code, err := os.ReadFile(exitFile)
	if err == nil {
		res.Code, err = strconv.Atoi(strings.TrimSpace(string(code)))
	}
	if err != nil {
		return res, fmt.Errorf("guest did not finish its script (%v, %v)\n%s%s", bootErr, err, res.Output, kernel.String())
	}
	return res, nil
}

// boot runs the guest's kernel until it powers off. The script's terminal
// (con1) is kept apart from the kernel's console (con0).
func (g *Guest) boot(ctx context.Context, init string, out, kernel io.Writer) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	cmd := g.umlCommand(ctx, init)
	cmd.Stdout, cmd.Stderr = kernel, kernel
	cmd.ExtraFiles = []*os.File{w} // becomes descriptor 3
	err = cmd.Start()
	w.Close()
	if err != nil {
		return err
	}
	copied := make(chan struct{})
	go func() {
		io.Copy(out, r)
		close(copied)
	}()
	err = cmd.Wait()
	<-copied
	return err
}

// umlCommand wraps the kernel in a process-id namespace: it forks helpers
// that outlive it when it is killed, and they die with the namespace.
func (g *Guest) umlCommand(ctx context.Context, init string) *exec.Cmd {
	cmd := g.Command(ctx, "unshare", "--pid", "--fork", "--kill-child", "linux.uml",
		fmt.Sprintf("mem=%dM", g.mem), "quiet", "loglevel=0",
		"root=/dev/root", "rootfstype=hostfs", "rw", "init="+init,
		"umid=guest", "uml_dir="+g.dir,
		"con=null", "con0=null,fd:1", "con1=null,fd:3",
		"vec0:transport=tap,ifname=tap0,depth=128,gro=1")
	cmd.Env = append(os.Environ(), "TMPDIR="+memoryDir(g.mem))
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// memoryDir returns where the guest's memory can be: UML maps it, executable,
// from an unlinked file in TMPDIR. Best is a tmpfs; on a disk it would be
// written back all the time.
func memoryDir(mib int) string {
	const shm = "/dev/shm"
	var fs unix.Statfs_t
	if unix.Statfs(shm, &fs) != nil || fs.Flags&unix.ST_NOEXEC != 0 || fs.Bavail*uint64(fs.Bsize) < uint64(mib)<<20 {
		return os.TempDir()
	}
	return shm
}

// initScript is the guest's first process. It powers off through sysrq, as
// no host program for that is sure to be there or to work without systemd.
func (g *Guest) initScript() string {
	return fmt.Sprintf(`#!/bin/sh
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /mnt
exec </dev/null >/dev/tty1 2>&1
stty -opost </dev/tty1
ip link set lo up
ip addr add %[2]s/24 dev vec0
ip link set vec0 up
modprobe -a -d %[1]s nfsv3 nfsv4
bash %[1]s/script
echo $? >%[1]s/exit
sync
echo o >/proc/sysrq-trigger
sleep 60
`, g.dir, ClientIP)
}
