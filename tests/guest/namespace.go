package guest

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Namespace is a network and mount namespace with the loopback device up and
// a tmpfs of its own on /run (so that an rpcbind in it has a socket, lock and
// state of its own).
type Namespace struct {
	holder *exec.Cmd      // keeps the namespaces alive
	stdin  io.WriteCloser // closing it ends the holder
	net    *os.File       // /proc/PID/ns/net of the holder
}

// NewNamespace makes a Namespace. Close it when done.
func NewNamespace() (*Namespace, error) {
	if err := NamespaceAvailable(); err != nil {
		return nil, err
	}
	// cat ends when its standard input does, hence with this process,
	// however this process ends.
	holder := exec.Command("cat")
	holder.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS}
	stdin, err := holder.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := holder.Start(); err != nil {
		return nil, fmt.Errorf("%w: new namespaces: %v", ErrUnavailable, err)
	}
	n := &Namespace{holder: holder, stdin: stdin}
	if err := n.setUp(); err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
}

func (n *Namespace) setUp() (err error) {
	n.net, err = os.Open(fmt.Sprintf("/proc/%d/ns/net", n.holder.Process.Pid))
	if err != nil {
		return err
	}
	return n.Sh("mount -t tmpfs tmpfs /run && mkdir /run/rpcbind && ip link set lo up")
}

// Command is exec.Command for a process inside the namespace. The process's
// pid is that of the command itself, and it is killed with its parent. (More
// exactly, with the thread that started it; the runtime keeps its threads,
// but for those that goroutines have locked and not unlocked.)
func (n *Namespace) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	argv := append([]string{"-n", "-m", "-t", strconv.Itoa(n.holder.Process.Pid), "--", name}, args...)
	cmd := exec.CommandContext(ctx, "nsenter", argv...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// Sh runs a short shell script in the namespace.
func (n *Namespace) Sh(script string) error {
	out, err := n.Command(context.Background(), "sh", "-ec", script).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", script, err, out)
	}
	return nil
}

// Do calls f on a thread that is in the network namespace. Sockets that f
// makes on that goroutine belong to the namespace and may be used anywhere.
func (n *Namespace) Do(f func() error) error {
	errc := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		back, err := n.enter()
		if err != nil {
			errc <- err
			return
		}
		err = f()
		// A goroutine that ends on a locked thread ends the thread too, and
		// with it every process that the thread once started: see Command.
		if back() == nil {
			runtime.UnlockOSThread()
		}
		errc <- err
	}()
	return <-errc
}

// enter moves the current thread into the namespace; back returns it to where
// it was.
func (n *Namespace) enter() (back func() error, err error) {
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, err
	}
	if err := unix.Setns(int(n.net.Fd()), unix.CLONE_NEWNET); err != nil {
		home.Close()
		return nil, fmt.Errorf("setns: %w", err)
	}
	return func() error {
		defer home.Close()
		return unix.Setns(int(home.Fd()), unix.CLONE_NEWNET)
	}, nil
}

// Dial is net.Dial from inside the namespace; address must be numeric.
func (n *Namespace) Dial(network, address string) (conn net.Conn, err error) {
	err = n.Do(func() error {
		conn, err = net.Dial(network, address)
		return err
	})
	return conn, err
}

// Close ends the namespace. Processes still in it keep it alive.
func (n *Namespace) Close() error {
	n.stdin.Close()
	err := n.holder.Wait()
	if n.net != nil {
		n.net.Close()
	}
	return err
}
