package compare

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

const isolatedEnv = "SLUICE_BENCH_ISOLATED"

// Isolate runs this program again, with the same arguments, in network and mount
// namespaces of its own, where its peers find no port taken and leave nothing in
// /run, and returns its exit status. It takes root. In the program run so, done is
// false, and the loopback device is up.
func Isolate() (status int, done bool, err error) {
	if os.Getenv(isolatedEnv) != "" {
		return 0, false, enter()
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), isolatedEnv+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	// In a process group of its own it gets each signal once, from here.
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL, Setpgid: true}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer close(signals)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return 0, true, fmt.Errorf("no namespaces of our own: %w", err)
	}
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s) // fails if it has just ended
		}
	}()
	err = cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return max(1, exit.ExitCode()), true, nil
	}
	return 0, true, err
}

// enter prepares the new namespaces. Go has made all mounts private.
func enter() error {
	if err := unix.Mount("tmpfs", "/run", "tmpfs", 0, ""); err != nil {
		return fmt.Errorf("tmpfs on /run: %w", err)
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
