package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"
)

// SIGUSR2 starts the program again, from the same path, where there may be a newer
// version of it by now. The new process gets the listening sockets; once it
// serves, the old one takes no more connections, lets clients have the replies
// they are owed, and ends. The sockets are open all the time, so no client is
// refused, and handles stay good because their key is in the state directory. If
// the new process does not come up, the old one goes on.

const (
	// handOverTimeout is how long a successor has to get ready.
	handOverTimeout = time.Minute
	// readyEnv is the descriptor on which a successor says that it serves.
	readyEnv = "SLUICE_READY_FD"
)

// run serves until SIGTERM, or until a successor does.
func (d *daemon) run(ctx context.Context, usr2 <-chan os.Signal) (handedOver bool) {
	for {
		select {
		case <-ctx.Done():
			return false
		case <-usr2:
			pid, err := d.startSuccessor()
			if err == nil {
				d.cfg.log.Info("handed over", "to", pid)
				// The service manager follows the new process.
				_, _ = sd.SdNotify(false, "MAINPID="+strconv.Itoa(pid))
				return true
			}
			d.cfg.log.Error("not handed over, serving on", "error", err)
		}
	}
}

// startSuccessor returns when the successor serves.
func (d *daemon) startSuccessor() (pid int, err error) {
	exe, err := os.Executable()
	if err != nil {
		return 0, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer r.Close()
	attr := &syscall.ProcAttr{Files: []uintptr{0, 1, 2}}
	var names []string
	for _, k := range d.socks.kept {
		attr.Files = append(attr.Files, uintptr(k.fd))
		names = append(names, k.name)
	}
	attr.Env = append(successorEnv(os.Environ()), handOverEnv+"="+strings.Join(names, ":"),
		readyEnv+"="+strconv.Itoa(len(attr.Files)))
	attr.Files = append(attr.Files, w.Fd())
	pid, err = syscall.ForkExec(exe, os.Args, attr)
	w.Close()
	if err != nil {
		return 0, fmt.Errorf("%s: %w", exe, err)
	}
	return pid, awaitSuccessor(pid, r)
}

// successorEnv leaves out what is about this process alone.
func successorEnv(env []string) []string {
	var out []string
	for _, e := range env {
		name, _, _ := strings.Cut(e, "=")
		switch name {
		case "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "WATCHDOG_PID", handOverEnv, readyEnv:
		default:
			out = append(out, e)
		}
	}
	return out
}

// awaitSuccessor waits for the byte that says that the process serves. One that
// does not get there is ended.
func awaitSuccessor(pid int, r *os.File) error {
	_ = r.SetReadDeadline(time.Now().Add(handOverTimeout)) // pipes have deadlines
	var b [1]byte
	_, err := r.Read(b[:])
	if err == nil {
		return nil
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
	var st syscall.WaitStatus
	for {
		if _, werr := syscall.Wait4(pid, &st, 0, nil); !errors.Is(werr, syscall.EINTR) {
			break
		}
	}
	return fmt.Errorf("the new process does not serve (%w, exit status %d); its log says why", err, st.ExitStatus())
}

// ready tells whoever waits for it that the server serves: a predecessor, and the
// service manager if there is one.
func (d *daemon) ready() {
	if fd, err := strconv.Atoi(os.Getenv(readyEnv)); err == nil {
		_ = os.Unsetenv(readyEnv)
		f := os.NewFile(uintptr(fd), "ready")
		_, _ = f.Write([]byte{1}) // who does not wait any more does not need it
		f.Close()
	}
	_, _ = sd.SdNotify(false, sd.SdNotifyReady)
}
