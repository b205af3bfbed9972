package compare

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"sluice/nfsd/bench"
	"sluice/nfsd/bench/client"
)

const (
	// startLimit is how long a peer may take to answer its first calls.
	startLimit = 20 * time.Second
	// stopLimit is how long it may take to end.
	stopLimit   = 10 * time.Second
	callTimeout = 5 * time.Second
)

// Peer is a server to measure.
type Peer struct {
	Name string
	// Skip, if set, leaves workloads out that mean nothing on this peer.
	Skip func(bench.Settings) bool
	// Start makes it serve a local file in a temporary directory of its own. An
	// error means that the peer is missing.
	Start func(ctx context.Context, file, dir string) (*Running, error)
}

// Running is a peer that answers.
type Running struct {
	Target  client.Target // the file
	Version string
	procs   []*process
}

// Stop ends what Start started.
func (r *Running) Stop() {
	for i := len(r.procs) - 1; i >= 0; i-- {
		r.procs[i].stop()
	}
}

// At is a server that somebody else runs and that has the file at url.
func At(name, url string) (Peer, error) {
	t, err := client.ParseURL(url)
	return Peer{Name: name, Start: func(ctx context.Context, _, _ string) (*Running, error) {
		r := &Running{Target: t}
		return r, r.wait(ctx, callTimeout)
	}}, err
}

// Command is a server that a command starts: it gets the file's name as its last
// argument and prints the file's URL as the first line of its standard output.
func Command(name string, argv ...string) Peer {
	return Peer{Name: name, Start: func(ctx context.Context, file, dir string) (*Running, error) {
		cmd := exec.Command(argv[0], append(argv[1:len(argv):len(argv)], file)...)
		out, err := cmd.StdoutPipe()
		if err != nil {
			return nil, err
		}
		p, err := start(cmd, dir)
		if err != nil {
			return nil, err
		}
		r := &Running{procs: []*process{p}}
		timer := time.AfterFunc(startLimit, p.stop)
		line, err := bufio.NewReader(out).ReadString('\n')
		timer.Stop()
		if err != nil {
			r.Stop()
			return nil, fmt.Errorf("%s printed no URL: %w", argv[0], p.explain(err))
		}
		if r.Target, err = client.ParseURL(strings.TrimSpace(line)); err != nil {
			r.Stop()
			return nil, err
		}
		return r, r.wait(ctx, startLimit)
	}}
}

// wait returns when the server gives the file. If it does not, the peer is stopped.
func (r *Running) wait(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		srv, err := client.Find(ctx, r.Target, callTimeout)
		if err == nil {
			_, err = srv.OpenFile(ctx, r.Target.Path)
		}
		if err == nil {
			return nil
		}
		ended := r.ended()
		select {
		case <-ctx.Done():
			ended = true
		case <-time.After(100 * time.Millisecond):
		}
		if ended {
			for _, p := range r.procs {
				err = p.explain(err)
			}
			r.Stop()
			return err
		}
	}
}

func (r *Running) ended() bool {
	for _, p := range r.procs {
		select {
		case <-p.done:
			return true
		default:
		}
	}
	return false
}

// process is a running command; its standard error goes to a file.
type process struct {
	cmd  *exec.Cmd
	log  *os.File
	done chan struct{} // closed when it has ended
}

// start starts a command that dies with this process.
func start(cmd *exec.Cmd, dir string) (*process, error) {
	log, err := os.CreateTemp(dir, "log-")
	if err != nil {
		return nil, err
	}
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := cmd.Start(); err != nil {
		log.Close()
		return nil, err
	}
	p := &process{cmd: cmd, log: log, done: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // how it ended is of no interest: it was told to
		close(p.done)
	}()
	return p, nil
}

// stop asks the process to end, and insists after a while. It may be called again.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(stopLimit):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
	p.log.Close()
}

// explain adds what the process said last.
func (p *process) explain(err error) error {
	text, _ := os.ReadFile(p.log.Name())
	said := strings.TrimSpace(string(text))
	if said == "" {
		return err
	}
	lines := strings.Split(said, "\n")
	return fmt.Errorf("%w; it said: %s", err, lines[len(lines)-1])
}

// freePort is a TCP port of loopback that nobody listens at.
func freePort() (uint16, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return uint16(l.Addr().(*net.TCPAddr).Port), nil
}

// lookPath is exec.LookPath, also where servers are that are not for users.
func lookPath(name string) (string, error) {
	path, err := exec.LookPath(name)
	for _, dir := range []string{"/usr/sbin/", "/sbin/", "/usr/bin/"} {
		if err == nil {
			break
		}
		path, err = exec.LookPath(dir + name)
	}
	if err != nil {
		return "", errors.New(name + " is not installed")
	}
	return path, nil
}
