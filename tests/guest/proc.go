package guest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Proc is a running command, as a rule a server under test.
type Proc struct {
	Log *Log // standard output and standard error

	cmd  *exec.Cmd
	done chan struct{} // closed when the command has ended
	err  error         // of Wait; valid after done
}

// Start starts a command in the namespace, its output going to log (nil for
// a new Log).
func (n *Namespace) Start(log *Log, name string, args ...string) (*Proc, error) {
	return StartProc(n.Command(context.Background(), name, args...), log)
}

// StartProc starts cmd, its output going to log (nil for a new Log).
func StartProc(cmd *exec.Cmd, log *Log) (*Proc, error) {
	if log == nil {
		log = new(Log)
	}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.WaitDelay = time.Second // a child it leaves behind may keep its output open
	p := &Proc{Log: log, cmd: cmd, done: make(chan struct{})}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// PID returns the command's process id.
func (p *Proc) PID() int { return p.cmd.Process.Pid }

// Done is closed when the command has ended.
func (p *Proc) Done() <-chan struct{} { return p.done }

// WaitFor returns when the command's output contains text; it is an error if
// the command ends first or timeout passes.
func (p *Proc) WaitFor(text string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	go func() {
		select {
		case <-p.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	if err := p.Log.WaitFor(ctx, text); err != nil {
		return fmt.Errorf("%s: %w\n%s", p.cmd.Args[len(p.cmd.Args)-1], err, p.Log)
	}
	return nil
}

// Stop asks the command to end with SIGTERM and returns its result; one that
// has not ended after timeout is killed, and that is an error.
func (p *Proc) Stop(timeout time.Duration) error {
	p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return p.err
	case <-time.After(timeout):
		p.Kill()
		return errors.New("still running after SIGTERM and " + timeout.String())
	}
}

// Kill ends the command with SIGKILL and waits for it.
func (p *Proc) Kill() {
	p.cmd.Process.Kill()
	<-p.done
}

// CPU returns the processor time the command has used so far, in user and
// kernel mode, its ended and waited-for children not counted.
func (p *Proc) CPU() (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
	if err != nil {
		return 0, err
	}
	return parseCPU(string(stat))
}

// parseCPU takes utime and stime, fields 14 and 15 of proc_pid_stat(5), from
// a stat line. They count in USER_HZ, which is 100 on every Linux port.
func parseCPU(stat string) (time.Duration, error) {
	// The second field is the program's name in parentheses and may hold
	// anything, so count from the last parenthesis.
	_, rest, ok := cutLast(stat, ") ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 13 {
		return 0, fmt.Errorf("unexpected stat line %q", stat)
	}
	var ticks time.Duration
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("unexpected stat line %q: %w", stat, err)
		}
		ticks += time.Duration(n)
	}
	return ticks * (time.Second / 100), nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
