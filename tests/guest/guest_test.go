package guest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

func newGuest(t *testing.T) *Guest {
	t.Helper()
	g, err := New(Options{MemMiB: 256})
	if errors.Is(err, ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

func TestGuestRun(t *testing.T) {
	t.Parallel()
	g := newGuest(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	// Twice, to see that a guest can be booted again.
	for _, code := range []int{0, 7} {
		res, err := g.Run(ctx, fmt.Sprintf("uname -s; test -w /mnt; lsmod | grep -c ^nfsv; echo err >&2; exit %d", code), nil)
		if err != nil {
			t.Fatal(err)
		}
		if want := "Linux\n2\nerr\n"; res.Output != want || res.Code != code {
			t.Errorf("got %q, exit status %d; want %q, %d", res.Output, res.Code, want, code)
		}
	}
}

// TestGuestNetwork has two guests talk to two servers at one and the same
// address, which shows that they do not meet.
func TestGuestNetwork(t *testing.T) {
	for _, name := range []string{"first", "second"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGuest(t)
			greet(t, g, name)
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			res, err := g.Run(ctx, "cat </dev/tcp/"+ServerIP+"/2049", nil)
			if err != nil || res.Output != name {
				t.Errorf("got %q, %v; want %q", res.Output, err, name)
			}
		})
	}
}

// greet serves one connection in g's namespace.
func greet(t *testing.T, g *Guest, text string) {
	var l net.Listener
	err := g.Do(func() (err error) {
		l, err = net.Listen("tcp", ServerIP+":2049")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		if c, err := l.Accept(); err == nil {
			c.Write([]byte(text))
			c.Close()
		}
	}()
}

func TestGuestTimeout(t *testing.T) {
	t.Parallel()
	g := newGuest(t)
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Second)
	defer cancel()
	start := time.Now()
	_, err := g.Run(ctx, "echo started; sleep 300", nil)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "started") {
		t.Errorf("got %v, want a deadline error with the output so far", err)
	}
	if d := time.Since(start); d > 9*time.Second {
		t.Errorf("took %v to give up", d)
	}
}

func TestProc(t *testing.T) {
	t.Parallel()
	if err := NamespaceAvailable(); err != nil {
		t.Skip(err)
	}
	n, err := NewNamespace()
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	p, err := n.Start(nil, "sh", "-c", "trap 'exit 3' TERM; echo ready $$; while :; do sleep 0.01; done")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.WaitFor(fmt.Sprintf("ready %d\n", p.PID()), 5*time.Second); err != nil {
		t.Error(err)
	}
	if _, err := p.CPU(); err != nil {
		t.Error(err)
	}
	if err := p.Stop(5 * time.Second); err == nil || err.Error() != "exit status 3" {
		t.Errorf("Stop: %v, want exit status 3", err)
	}
	if err := p.WaitFor("never", 5*time.Second); err == nil {
		t.Error("WaitFor found what is not there")
	}
}

func TestParseCPU(t *testing.T) {
	const good = "12 (a b) c) S 1 12 12 0 -1 4194560 1 2 3 4 150 50 0 0 20 0 1 0 5 6 7"
	if d, err := parseCPU(good); err != nil || d != 2*time.Second {
		t.Errorf("got %v, %v; want 2s", d, err)
	}
	for _, bad := range []string{"", "12 (x S 1", "12 (x) S 1 2 3 4 5 6 7 8 9 10 x y"} {
		if d, err := parseCPU(bad); err == nil {
			t.Errorf("%q: got %v, want an error", bad, d)
		}
	}
}
