package nfsd

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/export"
	"sluice/rpc"
)

// TestMain is a gate at the end: every descriptor that the tests and their
// servers opened is closed again.
func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	if r, w, err := os.Pipe(); err == nil { // the runtime's epoll
		r.Close()
		w.Close()
	}
	before := descriptors()
	code := m.Run()
	// /dev/null stays open for the process; it is opened at the first fetch.
	const kept = 1
	for deadline := time.Now().Add(5 * time.Second); descriptors() > before+kept && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	if after := descriptors(); code == 0 && after > before+kept {
		fmt.Printf("nfsd: %d descriptors after the tests, %d before\n", after, before)
		code = 1
	}
	os.Exit(code)
}

func descriptors() int {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(list)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// quiet is a log that goes nowhere.
func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// exporting loads a table that exports directories to everybody.
func exporting(t testing.TB, options string, dirs ...string) *export.Matcher {
	t.Helper()
	var text strings.Builder
	for _, d := range dirs {
		fmt.Fprintf(&text, "%s *(%s)\n", d, options)
	}
	file := filepath.Join(t.TempDir(), "exports")
	must(t, os.WriteFile(file, []byte(text.String()), 0o644))
	table, diags, err := export.Load(context.Background(), export.LoadOptions{File: file})
	must(t, err)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	return export.NewMatcher(table, nil)
}

// newService makes a service that exports a directory, closed with the test.
func newService(t testing.TB, state string, m *export.Matcher) *Server {
	t.Helper()
	s, err := NewServer(Config{StateDir: state, Log: quiet()})
	must(t, err)
	s.SetExports(m)
	t.Cleanup(s.Close)
	return s
}

// serveOn runs a service on loopback until the test ends.
func serveOn(t testing.TB, s *Server, threads int) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	srv, err := rpc.NewServer(rpc.Config{Programs: []rpc.Program{s.NFS(), s.Mount()}, Threads: threads, MaxConns: 16,
		NewThread: s.NewThread, NewConn: s.NewConn, Log: quiet()})
	must(t, err)
	addr = l.Addr().String()
	must(t, srv.Listen(l.(*net.TCPListener)))
	must(t, srv.Start())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		must(t, srv.Shutdown(ctx))
	})
	return addr
}
