package rpc

import (
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"
)

// TestMain is a gate at the end: whatever the tests open is closed again.
func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	warm() // the runtime's own descriptors
	before := descriptors()
	code := m.Run()
	for deadline := time.Now().Add(5 * time.Second); descriptors() > before && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	if after := descriptors(); code == 0 && after > before {
		fmt.Printf("rpc: %d descriptors after the tests, %d before\n", after, before)
		code = 1
	}
	os.Exit(code)
}

// warm makes the runtime open its epoll.
func warm() {
	r, w, err := os.Pipe()
	if err == nil {
		r.Close()
		w.Close()
	}
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

// eventually waits for f to become true.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
	}
}
