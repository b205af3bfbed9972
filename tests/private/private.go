// Package private gives a test program mount and network namespaces of its own,
// so that whatever it mounts goes away with it, however it ends, and no port is
// in use.
package private

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// insideEnv marks the second run of a program.
const insideEnv = "SLUICE_TEST_PRIVATE"

// Inside says whether this process has namespaces of its own.
func Inside() bool { return os.Getenv(insideEnv) != "" }

// Again runs this program once more, in new namespaces, and returns its exit
// status. It does nothing, and done is false, in that second run and without
// root.
func Again() (status int, done bool) {
	if Inside() {
		if err := loopbackUp(); err != nil {
			fmt.Fprintln(os.Stderr, "private:", err)
			return 1, true
		}
		return 0, false
	}
	if os.Geteuid() != 0 {
		return 0, false
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), insideEnv+"=yes")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	// Go makes all mounts of the new namespace private.
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Unshareflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET,
		Pdeathsig:    syscall.SIGKILL,
	}
	runtime.LockOSThread() // that signal comes when the thread ends, not the process
	defer runtime.UnlockOSThread()
	// The second run hears of a Ctrl-C by itself, and of a SIGTERM from here.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "private: no namespaces of our own:", err)
		return 1, true
	}
	go func() {
		for s := range signals {
			if s == syscall.SIGTERM {
				_ = cmd.Process.Signal(s)
			}
		}
	}()
	err := cmd.Wait()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return max(1, exit.ExitCode()), true
	case err != nil:
		fmt.Fprintln(os.Stderr, "private:", err)
		return 1, true
	}
	return 0, true
}

// loopbackUp starts the loopback device of a new network namespace.
func loopbackUp() error {
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
