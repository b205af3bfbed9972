package main

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// logFile is where the lives of a server write. A file, not a pipe: it outlives
// each of them, and a process that was started by its predecessor writes to it
// as well.
type logFile string

func (l logFile) String() string {
	b, _ := os.ReadFile(string(l)) // nothing before the first start
	return string(b)
}

// process is one that we have started and wait for.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // of Wait; valid after done
}

func startProcess(cmd *exec.Cmd, log logFile) (*process, error) {
	f, err := os.OpenFile(string(log), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	cmd.Stdout, cmd.Stderr = f, f
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// stop sends SIGTERM; anything but a clean end in time is an error.
func (p *process) stop(limit time.Duration) error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return p.err
	case <-time.After(limit):
		p.kill()
		return errors.New("still running after " + limit.String())
	}
}
