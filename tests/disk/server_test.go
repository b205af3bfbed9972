package disk

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"sluice/ioctx"
	"sluice/tests/disk/daemon"
)

// backend is a way in which the server gets at disks.
type backend struct {
	name   string
	prefix []string
	mode   string // as its status tells it, with --io-context shared
}

func backends() []backend {
	return []backend{
		{"uring", nil, "shared"},
		{"threads", []string{os.Getenv(noringEnv)}, "threads"},
	}
}

// eachBackend runs a test for each.
func eachBackend(t *testing.T, f func(t *testing.T, b backend)) {
	t.Helper()
	for _, b := range backends() {
		t.Run(b.name, func(t *testing.T) { f(t, b) })
	}
}

// server is a running server and the test that it is for.
type server struct {
	*daemon.Server
	t *testing.T
}

// startServer exports directories, and checks when the test ends that the server
// ends well. Four threads, so that there are several even where the machine has
// one CPU.
func startServer(t *testing.T, b backend, dirs []string, args ...string) *server {
	t.Helper()
	var exports strings.Builder
	for i, dir := range dirs {
		fmt.Fprintf(&exports, "%s *(ro,insecure,no_root_squash,no_subtree_check,fsid=%d)\n", dir, i+1)
	}
	s, err := daemon.Start(daemon.Options{
		Bin: os.Getenv(sluiceEnv), Work: scratch, Exports: exports.String(),
		Args: append([]string{"--threads", "4"}, args...), Prefix: b.prefix,
	})
	must(t, err)
	t.Cleanup(func() {
		if err := s.End(); err != nil {
			t.Error(err)
		} else if t.Failed() {
			t.Logf("the server's log:\n%s", s.Log)
		}
	})
	return &server{s, t}
}

// io returns what the server's I/O context counted for a device, after checking
// that the devices add up to the total.
func (s *server) io(device string) (ioctx.Stats, ioctx.DeviceStats) {
	s.t.Helper()
	st, err := s.Status()
	must(s.t, err)
	io := st.IO()
	var sum ioctx.DeviceStats
	for _, d := range io.Devices {
		sum.Requests += d.Requests
		sum.Bytes += d.Bytes
		sum.Hits += d.Hits
		sum.Waits += d.Waits
		sum.Coalesced += d.Coalesced
		sum.Turns += d.Turns
		sum.Waste += d.Waste
	}
	tot := io.Total
	if sum.Requests != tot.Requests || sum.Bytes != tot.Bytes || sum.Hits != tot.Hits || sum.Waits != tot.Waits ||
		sum.Coalesced != tot.Coalesced || sum.Turns != tot.Turns || sum.Waste != tot.Waste {
		s.t.Errorf("the devices' counters add up to %+v, the total is %+v", sum, tot)
	}
	return io, st.Device(device)
}
