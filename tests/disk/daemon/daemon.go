// Package daemon runs a built server for the tests and benchmarks of disks.
package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"sluice/ioctx"
	"sluice/tests/guest"
)

const (
	readyLimit  = 60 * time.Second
	statusLimit = 20 * time.Second
	// StopLimit is how long a server may take to end after SIGTERM.
	StopLimit = 30 * time.Second
)

// Build builds the command into dir, with the race detector if wanted, and
// returns its path. SLUICE=FILE in the environment takes that program instead.
func Build(dir string, race bool) (string, error) {
	if bin := os.Getenv("SLUICE"); bin != "" {
		return filepath.Abs(bin)
	}
	return build(dir, "sluice/nfsd/cmd/sluice", race)
}

// BuildNoRing builds the command that runs others without io_uring.
func BuildNoRing(dir string) (string, error) { return build(dir, "sluice/tests/disk/noring", false) }

func build(dir, pkg string, race bool) (string, error) {
	bin := filepath.Join(dir, filepath.Base(pkg))
	args := []string{"build", "-o", bin}
	if race {
		args = append(args, "-race")
	}
	out, err := exec.Command("go", append(args, pkg)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build %s: %w\n%s", pkg, err, out)
	}
	return bin, nil
}

// Options say how to run a server.
type Options struct {
	Bin string
	// Work is a directory for its state.
	Work string
	// Exports is the text of its exports file.
	Exports string
	// Listen is its address; default a free port on loopback.
	Listen string
	// Args are further arguments of serve, Prefix a command to run it through.
	Args, Prefix []string
	// In is the namespace to run in; default that of the caller.
	In *guest.Namespace
}

// Server is a running server.
type Server struct {
	*guest.Proc
	Addr  string
	bin   string
	state string
}

// Start starts a server and waits until it is ready.
func Start(o Options) (*Server, error) {
	dir, err := os.MkdirTemp(o.Work, "server-")
	if err != nil {
		return nil, err
	}
	s := &Server{bin: o.Bin, state: filepath.Join(dir, "state")}
	exports := filepath.Join(dir, "exports")
	if err := os.WriteFile(exports, []byte(o.Exports), 0o644); err != nil {
		return nil, err
	}
	listen := o.Listen
	if listen == "" {
		listen = "127.0.0.1:0"
	}
	argv := append(append([]string{}, o.Prefix...), o.Bin, "serve", "--exports", exports,
		"--state-dir", s.state, "--listen", listen, "--rpcbind", "off")
	argv = append(argv, o.Args...)
	if o.In != nil {
		s.Proc, err = o.In.Start(nil, argv[0], argv[1:]...)
	} else {
		s.Proc, err = guest.StartProc(exec.Command(argv[0], argv[1:]...), nil)
	}
	if err != nil {
		return nil, err
	}
	if err := s.awaitReady(); err != nil {
		s.Kill()
		return nil, err
	}
	return s, nil
}

var readyLine = regexp.MustCompile(`msg=ready addresses=(\S+)`)

func (s *Server) awaitReady() error {
	if err := s.WaitFor("msg=ready", readyLimit); err != nil {
		return err
	}
	m := readyLine.FindStringSubmatch(s.Log.String())
	if m == nil {
		return fmt.Errorf("no address in the log:\n%s", s.Log)
	}
	s.Addr, _, _ = strings.Cut(m[1], ",")
	return nil
}

// Status is what is read here of `sluice status --json`.
type Status struct {
	RPC struct {
		Connections int
		Waiting     int
		Calls       map[string]uint64
	} `json:"rpc"`
	NFS struct {
		FilesOpen, PipesInUse int
		ReadsFetched          uint64
		IO                    ioctx.Stats
	} `json:"nfs"`
}

// IO is what the server's I/O context counted.
func (st Status) IO() ioctx.Stats { return st.NFS.IO }

// Device returns the counters of a block device; zeros if it was not read from.
func (st Status) Device(name string) ioctx.DeviceStats {
	for _, d := range st.NFS.IO.Devices {
		if d.Name == name {
			return d
		}
	}
	return ioctx.DeviceStats{}
}

// Status asks the server.
func (s *Server) Status() (Status, error) {
	ctx, cancel := context.WithTimeout(context.Background(), statusLimit)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, s.bin, "status", "--json", "--state-dir", s.state)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return Status{}, fmt.Errorf("sluice status: %w: %s", err, errs.String())
	}
	var all []Status
	if err := json.Unmarshal(out.Bytes(), &all); err != nil {
		return Status{}, err
	}
	if len(all) != 1 {
		return Status{}, fmt.Errorf("sluice status: %d servers, want 1", len(all))
	}
	return all[0], nil
}

// End sends SIGTERM; anything but a clean end within StopLimit is an error, and
// so is a data race.
func (s *Server) End() error {
	err := s.Stop(StopLimit)
	if strings.Contains(s.Log.String(), "DATA RACE") {
		err = errors.Join(err, errors.New("data race"))
	}
	if err != nil {
		return fmt.Errorf("server at SIGTERM: %w\n%s", err, s.Log)
	}
	return nil
}

// Dump has the Go runtime say where every goroutine is, in the log, and ends the
// server.
func (s *Server) Dump() {
	if p, err := os.FindProcess(s.PID()); err == nil {
		_ = p.Signal(syscall.SIGQUIT)
	}
	select {
	case <-s.Done():
	case <-time.After(5 * time.Second):
		s.Kill()
	}
}
