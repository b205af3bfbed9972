package main

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A message that comes by the thousand is written a few times, other messages are
// not held up by it, and what was left out is counted.
func TestLogLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		log := slog.New(newLimitHandler(slog.NewTextHandler(&b, nil))).With("a", 1)
		for range 1000 {
			log.Info("often", "client", "192.0.2.1")
		}
		log.Info("once", "client", "192.0.2.1")
		if n := strings.Count(b.String(), "msg=often"); n != logBurst {
			t.Errorf("%d lines of 1000, want %d", n, logBurst)
		}
		if !strings.Contains(b.String(), "msg=once") {
			t.Error("another message is left out too")
		}
		for range 1000 {
			log.Info("ours")
		}
		if n := strings.Count(b.String(), "msg=ours"); n != 1000 {
			t.Errorf("%d lines of 1000 that no client caused", n)
		}
		time.Sleep(10 * logEvery)
		b.Reset()
		for range 100 {
			log.Info("often", "client", "192.0.2.1")
		}
		if n := strings.Count(b.String(), "msg=often"); n != 10 {
			t.Errorf("%d lines after the time for 10", n)
		}
		if !strings.Contains(b.String(), "suppressed=950") {
			t.Errorf("what was left out is not counted: %s", b.String())
		}
	})
}
