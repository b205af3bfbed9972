package bench

import (
	"errors"
	"strings"
	"testing"
	"time"

	"sluice/nfsd/bench/client"
)

func TestParseSize(t *testing.T) {
	for s, want := range map[string]uint64{"1": 1, "4096": 4096, "64K": 65536, "1M": 1 << 20, "3G": 3 << 30, "2T": 2 << 40} {
		got, err := ParseSize(s)
		if err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", s, got, err, want)
		}
	}
	for _, bad := range []string{"", "K", "0", "0K", "-1", "+1", "1.5M", "1k", "1P", "1KK", "8388608T", "99999999999999999999", "1 K", "0x10"} {
		if got, err := ParseSize(bad); err == nil {
			t.Errorf("%q: %d", bad, got)
		}
	}
	for n, want := range map[uint64]string{1: "1", 1000: "1000", 1024: "1K", 1 << 20: "1M", 3 << 29: "1536M", 1 << 40: "1T"} {
		if got := FormatSize(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
	for n, want := range map[int]string{512: "512 bytes", 4096: "4 KiB", 1 << 20: "1 MiB"} {
		if got := SizeName(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

// What makes no sense is a usage error that names the value.
func TestOptionsCheck(t *testing.T) {
	good := Options{Settings: Settings{Conns: 1, Depth: 1}, Targets: []client.Target{{Host: "h"}}, Timeout: time.Second, Loops: 1}
	if err := good.check(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Options){
		"connections 0":    func(o *Options) { o.Conns = 0 },
		"connections 9999": func(o *Options) { o.Conns = 9999 },
		"depth 0":          func(o *Options) { o.Depth = 0 },
		"depth 1025":       func(o *Options) { o.Depth = 1025 },
		"rsize 4194305":    func(o *Options) { o.RSize = 4194305 },
		"shuffle -1":       func(o *Options) { o.Shuffle = -1 },
		"streams 1025":     func(o *Options) { o.Streams = 1025 },
		"timeout 0s":       func(o *Options) { o.Timeout = 0 },
		"negative":         func(o *Options) { o.Time = -1 },
		"nothing":          func(o *Options) { o.Targets = nil },
		"2 files":          func(o *Options) { o.Verify = []string{"a", "b"} },
		"once only":        func(o *Options) { o.Cold, o.Loops = true, 2 },
		"one server":       func(o *Options) { o.Targets = append(o.Targets, client.Target{Host: "other"}) },
	} {
		o := good
		change(&o)
		err := o.check()
		if err == nil {
			err = errors.New("no error")
		}
		var usage UsageError
		if !errors.As(err, &usage) && !strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

// The units: bytes or calls a second, milliseconds a gigabyte or microseconds a call.
func TestResultUnits(t *testing.T) {
	r := Result{Settings: Settings{Op: OpRead}, Seconds: 2, Bytes: 4e9, Calls: 10}
	if r.Rate() != 2e9 || r.Cost(1) != 250 {
		t.Errorf("read: %v bytes/s, %v ms/GB", r.Rate(), r.Cost(1))
	}
	m := Result{Settings: Settings{Op: "null"}, Seconds: 2, Calls: 1000}
	if m.Rate() != 500 || m.Cost(0.001) != 1 {
		t.Errorf("null: %v calls/s, %v µs/call", m.Rate(), m.Cost(0.001))
	}
	if none := (Result{}); none.Rate() != 0 || none.Cost(1) != 0 {
		t.Errorf("nothing: %v, %v", none.Rate(), none.Cost(1))
	}
}
