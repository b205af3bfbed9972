package seekdisk

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The drive runs in a process of its own, which never touches what is on the
// disk. A process that waits for a stalled disk cannot be killed; if it were also
// the one that serves the disk, nothing could ever end the two. For the same
// reason it leaves its parent's mount namespace: the last process in one unmounts
// what is there when it ends, and would then wait for itself.
//
// The process is this very program: driveEnv makes init take another way.
const driveEnv = "SLUICE_SEEKDISK_DRIVE"

func init() {
	config := os.Getenv(driveEnv)
	if config == "" {
		return
	}
	if err := runDrive(config); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

// readyLine is what the process prints when it serves; anything else is an error.
const readyLine = "ready"

// runDrive serves the FUSE file system whose connection is descriptor 3, until it
// is unmounted or the parent dies.
func runDrive(config string) error {
	// A Ctrl-C is for the parent, who has files on the disk to be done with first.
	if err := unix.Setpgid(0, 0); err != nil {
		return err
	}
	// A disk does not wait for a CPU. The group is all threads of this process.
	if err := unix.Setpriority(unix.PRIO_PGRP, 0, -20); err != nil {
		return err
	}
	var o Options
	if err := json.Unmarshal([]byte(config), &o); err != nil {
		return err
	}
	parent, err := os.Open(fmt.Sprintf("/proc/%d/stat", os.Getppid()))
	if err != nil {
		return err
	}
	if err := leaveMounts(); err != nil {
		return err
	}
	drive := newDrive(o)
	server, err := serveFuse("/dev/fd/3", drive, newStore(), o.Size)
	if err != nil {
		return err
	}
	fmt.Println(readyLine)
	unmounted := make(chan struct{})
	go func() {
		server.Wait()
		close(unmounted)
	}()
	for {
		select {
		case <-unmounted:
			return nil
		case <-time.After(time.Second):
		}
		if ending(parent) {
			break
		}
	}
	// Whoever still waits for the disk gets an error, so that the parent's mounts
	// can go away with it. If they do not, they were not its own, and then it ends
	// here: who uses the disk gets errors.
	drive.close()
	select {
	case <-unmounted:
	case <-time.After(closeLimit):
	}
	return errors.New("the parent has died")
}

// leaveMounts turns the mount namespace of this process, which was made for it,
// into an empty one, so that it keeps nothing mounted.
func leaveMounts() error {
	const dir = "/proc" // any directory that is sure to be there
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return os.NewSyscallError("mount private", err)
	}
	if err := unix.Mount("none", dir, "tmpfs", 0, ""); err != nil {
		return os.NewSyscallError("mount tmpfs", err)
	}
	if err := os.Chdir(dir); err != nil {
		return err
	}
	// The old root comes to lie on top of the new one (pivot_root(2), NOTES).
	if err := unix.PivotRoot(".", "."); err != nil {
		return os.NewSyscallError("pivot_root", err)
	}
	return os.NewSyscallError("unmount the old root", unix.Unmount(".", unix.MNT_DETACH))
}

// ending says whether a process has ended or is about to: its main thread has,
// while others may still wait for this drive. stat is its /proc/PID/stat.
func ending(stat *os.File) bool {
	var b [512]byte
	n, err := stat.ReadAt(b[:], 0)
	_, state, ok := strings.Cut(string(b[:n]), ") ")
	return n == 0 && err != nil || !ok || state[0] == 'Z' || state[0] == 'X'
}

// process is a drive's process, seen from its parent.
type process struct {
	cmd  *exec.Cmd
	done chan error
}

// startProcess starts the process and mounts its file system at dir.
func startProcess(dir string, o Options) (*process, error) {
	conn, err := mountFuse(dir)
	if err != nil {
		return nil, err
	}
	defer conn.Close() // the process has it
	p, err := serveIn(conn, o)
	if err != nil {
		return nil, errors.Join(err, unix.Unmount(dir, unix.MNT_DETACH))
	}
	return p, nil
}

func serveIn(conn *os.File, o Options) (*process, error) {
	config, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command("/proc/self/exe"), done: make(chan error, 1)}
	p.cmd.Env = append(os.Environ(), driveEnv+"="+string(config))
	p.cmd.Stderr = os.Stderr
	p.cmd.ExtraFiles = []*os.File{conn}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	line, _ := bufio.NewReader(stdout).ReadString('\n')
	go func() { p.done <- p.cmd.Wait() }()
	if line = strings.TrimSpace(line); line != readyLine {
		p.kill()
		return nil, fmt.Errorf("the drive does not start: %s", line)
	}
	return p, nil
}

// wait waits for the process to end, as it does when its file system is unmounted.
func (p *process) wait() error {
	select {
	case err := <-p.done:
		p.done <- err
		return err
	case <-time.After(closeLimit):
		p.kill()
		return errors.New("the drive did not end by itself")
	}
}

// kill ends the process; who waits for the disk gets an error.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	err := <-p.done
	p.done <- err
}
