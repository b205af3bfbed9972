package protocol

import (
	"fmt"
	"net"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"sluice/tests/protocol/wire"
)

// The network between this namespace and another machine's: documentation
// addresses (RFC 5737).
const (
	hereNet  = "198.51.100.1/24"
	thereNet = "198.51.100.2/24"
	hereAddr = "198.51.100.1"
)

// asRemote runs f as if on another machine: on a thread in a network namespace of
// its own, linked to this one. f must not start goroutines that use the network.
func asRemote(t *testing.T, f func()) {
	t.Helper()
	needRoot(t)
	if _, err := exec.LookPath("ip"); err != nil {
		skip(t, "ip is not installed")
	}
	runtime.LockOSThread() // the thread stands for this namespace
	defer runtime.UnlockOSThread()
	tid := syscall.Gettid()
	errs, configured := make(chan error, 1), make(chan error, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // not unlocked: the thread ends with the goroutine
		err := syscall.Unshare(syscall.CLONE_NEWNET)
		if err == nil {
			// Commands that this thread starts are in its namespace.
			err = ip("link", "add", "there", "type", "veth", "peer", "name", "here", "netns", itoa(tid))
		}
		if err == nil {
			err = configure("there", thereNet)
		}
		errs <- err
		if <-configured == nil {
			f()
		}
	}()
	err := <-errs
	if err == nil {
		err = configure("here", hereNet)
	}
	configured <- err
	if err != nil {
		skip(t, "no network of two machines: %v", err)
	}
	<-done
}

func configure(device, addr string) error {
	if err := ip("addr", "add", addr, "dev", device); err != nil {
		return err
	}
	return ip("link", "set", device, "up")
}

func ip(args ...string) error {
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// Rows "EXPORT: never what the caller may not know" and "MNT: not exported:
// ACCES": another machine is told of its own exports alone, and whether a path
// exists that it may not mount makes no difference.
func TestRemoteClient(t *testing.T) {
	must(t, makeTree())
	s := newServer(t, treePath("pub")+" 198.51.100.0/24(ro,insecure,no_subtree_check)\n"+
		treePath("hosts")+" 127.0.0.1(ro,insecure,no_subtree_check)\n"+
		treePath("foreign")+" 192.0.2.1(ro,insecure,no_subtree_check)\n")
	must(t, s.start("0.0.0.0:0"))
	t.Cleanup(func() { s.stopChecked(t) })
	_, port, err := net.SplitHostPort(s.addr)
	must(t, err)
	s.addr = net.JoinHostPort("127.0.0.1", port)
	secret := dial(t, s).mount(treePath("hosts"))
	asRemote(t, func() {
		conn, err := wire.Dial(net.JoinHostPort(hereAddr, port))
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		checkRemote(t, &client{t: errorOnly{t}, conn: conn, cred: wire.Sys(owner, owner)}, secret)
	})
}

func checkRemote(t *testing.T, c *client, secret []byte) {
	d := c.call(wire.Mount, 3, 5, nil)
	var dirs []string
	for d.Bool() {
		dirs = append(dirs, string(d.Opaque(1024)))
		for d.Bool() {
			if who := string(d.Opaque(255)); !strings.HasPrefix(who, "198.51.100.") {
				t.Errorf("EXPORT names the client %s", who)
			}
		}
	}
	if want := []string{treePath("pub")}; !slices.Equal(dirs, want) || d.End() != nil {
		t.Errorf("EXPORT lists %q (%v), want %q", dirs, d.End(), want)
	}
	for _, path := range []string{treePath("hosts"), treePath("foreign"), treePath("foreign/nothing"), "/nothing", treePath("pub/../hosts")} {
		if status, _, _ := c.mnt(path); status != mntAcces {
			t.Errorf("MNT %s: status %d, want MNT3ERR_ACCES", path, status)
		}
	}
	if r := c.read(c.find(c.mount(treePath("pub")), "hello"), 0, 100); string(r.data) != helloText {
		t.Errorf("READ of what is exported: status %d", r.status)
	}
	if status, _ := c.getattr(secret); status != wire.ErrStale {
		t.Errorf("GETATTR with a handle of another's export: status %d, want NFS3ERR_STALE", status)
	}
}

// errorOnly is a test whose Fatal ends the goroutine that calls it, which is not
// the test's own.
type errorOnly struct{ *testing.T }

func (e errorOnly) Fatal(args ...any) {
	e.Helper()
	e.Error(args...)
	runtime.Goexit()
}

func (e errorOnly) Fatalf(format string, args ...any) {
	e.Helper()
	e.Errorf(format, args...)
	runtime.Goexit()
}
