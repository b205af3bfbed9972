package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"sluice/tests/numa"
)

const stateDir = "/run/sluice"

// patience is how long a server gets to start, and to stop. Emulation is slow.
const patience = 60 * time.Second

// runScenario runs the server, reads through it, and looks at its threads.
func runScenario(s *numa.Scenario, r *numa.Report) error {
	cmd := exec.Command("/bin/sluice", append([]string{"serve", "--exports", numa.Exports, "--listen", s.Listen + ":" + numa.Port,
		"--rpcbind", "off", "--state-dir", stateDir, "--numa", s.NUMA}, s.Args...)...)
	var log lockedBuffer
	cmd.Stderr = &log
	if s.Cpuset != "" {
		group, err := makeCgroup(s)
		if err != nil {
			return err
		}
		defer group.Close()
		cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(group.Fd())}
	}
	defer func() { r.Log = log.String() }()
	if err := cmd.Start(); err != nil {
		return err
	}
	r.PID = cmd.Process.Pid
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	serves, err := awaitStart(&log, ended)
	if err != nil || !serves {
		r.Exit = cmd.ProcessState.ExitCode()
		return err
	}
	err = observe(s, r)
	_ = cmd.Process.Signal(syscall.SIGTERM)
	select {
	case stopErr := <-ended:
		return errors.Join(err, stopErr)
	case <-time.After(patience):
		_ = cmd.Process.Kill()
		return errors.Join(err, errors.New("the server does not stop"))
	}
}

// awaitStart waits until the server says that it is ready, or has ended.
func awaitStart(log *lockedBuffer, ended <-chan error) (serves bool, err error) {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		select {
		case <-ended:
			return false, nil
		case <-time.After(20 * time.Millisecond):
			if bytes.Contains([]byte(log.String()), []byte("msg=ready")) {
				return true, nil
			}
		}
	}
	return true, errors.New("the server does not start")
}

// observe has the clients read, and takes the server's status and threads.
func observe(s *numa.Scenario, r *numa.Report) error {
	pid := r.PID
	for _, cpu := range s.Clients {
		before, err := tasks(pid)
		if err != nil {
			return err
		}
		reading, err := readFrom(cpu, s.Listen+":"+numa.Port)
		if err != nil {
			return fmt.Errorf("client on CPU %d: %w", cpu, err)
		}
		after, err := tasks(pid)
		if err != nil {
			return err
		}
		reading.RunNS = ran(before, after)
		r.Reads = append(r.Reads, reading)
	}
	out, err := exec.Command("/bin/sluice", "status", "--state-dir", stateDir, "--json").Output()
	if err != nil {
		return fmt.Errorf("sluice status: %w", err)
	}
	var all []map[string]any
	if err := json.Unmarshal(out, &all); err != nil || len(all) != 1 {
		return fmt.Errorf("sluice status: %d servers, %w", len(all), err)
	}
	r.Status = all[0]
	if r.Tasks, err = tasks(pid); err != nil {
		return err
	}
	r.Memory, err = boundMemory(pid)
	return err
}

// makeCgroup makes a cgroup with a cpuset (cgroup-v2.rst, Cpuset) and opens it.
func makeCgroup(s *numa.Scenario) (*os.File, error) {
	dir := filepath.Join(cgroupRoot, "test")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	for file, value := range map[string]string{"cpuset.cpus": s.Cpuset, "cpuset.mems": s.CpusetMems} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(value), 0); err != nil {
			return nil, err
		}
	}
	return os.Open(dir)
}

// lockedBuffer takes output while it is read.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
