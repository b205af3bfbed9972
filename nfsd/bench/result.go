package bench

import (
	"fmt"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"sluice/nfsd/bench/host"
)

// OpRead is the Op of reads; others are the Ops of Meta.
const OpRead = "read"

// Settings are what is asked of a server. They are part of a Result.
type Settings struct {
	Op      string `json:"op"`
	RSize   int    `json:"rsize,omitempty"` // bytes a READ
	Conns   int    `json:"conns"`
	Depth   int    `json:"depth"`             // calls outstanding on each connection; 0 if the client decides
	Streams int    `json:"streams,omitempty"` // parts of a file read side by side
	Shuffle int    `json:"shuffle,omitempty"` // reads reordered in windows of so many
	// Cold says that the file was dropped from the server's page cache before.
	Cold bool `json:"cold,omitempty"`
	// Verified says that all data was compared, which costs the client time.
	Verified bool `json:"verified,omitempty"`
	// Where names the client and the machine if they are not this program on this one.
	Where string `json:"where,omitempty"`
}

// Result is one measurement.
type Result struct {
	Settings
	// Peer names the server in a comparison, Round the repetition, from 1.
	Peer  string `json:"peer,omitempty"`
	Round int    `json:"round,omitempty"`

	Target  string    `json:"target"`
	Files   int       `json:"files,omitempty"`
	Started time.Time `json:"started"`
	Seconds float64   `json:"seconds"`
	Calls   uint64    `json:"calls"`
	Bytes   uint64    `json:"bytes,omitempty"`
	// Partial says that the measurement was interrupted.
	Partial bool `json:"partial,omitempty"`

	Latency Latency `json:"latency_us"`
	// ClientCPU is the CPU time that this process used, in seconds.
	ClientCPU float64 `json:"client_cpu_seconds"`
	// RestCPU is what the rest of this machine used meanwhile, in seconds: noise.
	RestCPU float64 `json:"rest_cpu_seconds"`
	// Server is what the server used, if it runs on this machine.
	Server *ServerUse `json:"server,omitempty"`
	// Disk is what the block device below the file did, if it is on this machine.
	Disk *host.DiskUse `json:"disk,omitempty"`
}

// Latency is the time from sending a call to having its reply complete, in
// microseconds.
type Latency struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

func latencyOf(h *hdrhistogram.Histogram) Latency {
	at := func(q float64) float64 { return float64(h.ValueAtQuantile(q)) / 1000 }
	return Latency{P50: at(50), P90: at(90), P99: at(99), P999: at(99.9), Max: float64(h.Max()) / 1000}
}

// ServerUse is the CPU that a server used.
type ServerUse struct {
	Name string `json:"name"`
	PIDs []int  `json:"pids"`
	// CPU is in seconds, user and system, by role of the threads. What the kernel
	// does in interrupts for the server's sockets is not in it.
	CPU map[string]float64 `json:"cpu_seconds"`
}

// Total is the CPU time of all threads, in seconds.
func (u *ServerUse) Total() (sum float64) {
	for _, s := range u.CPU {
		sum += s
	}
	return sum
}

// IsRead says whether throughput in bytes means anything.
func (r *Result) IsRead() bool { return r.Op == OpRead }

// Rate is in bytes a second for reads, calls a second for others.
func (r *Result) Rate() float64 {
	if r.Seconds <= 0 {
		return 0
	}
	return r.work() / r.Seconds
}

func (r *Result) work() float64 {
	if r.IsRead() {
		return float64(r.Bytes)
	}
	return float64(r.Calls)
}

// Cost is CPU time by work: milliseconds a gigabyte (10^9 bytes) for reads,
// microseconds a call for others.
func (r *Result) Cost(cpuSeconds float64) float64 {
	switch {
	case r.work() == 0:
		return 0
	case r.IsRead():
		return cpuSeconds * 1e3 / (r.work() / 1e9)
	}
	return cpuSeconds * 1e6 / r.work()
}

// String describes the settings in a few words.
func (s Settings) String() string {
	var b strings.Builder
	if s.Op == OpRead {
		fmt.Fprintf(&b, "%s reads", SizeName(s.RSize))
	} else {
		b.WriteString(strings.ToUpper(s.Op))
	}
	add := func(n int, one, many string) {
		unit := many
		if n == 1 {
			unit = one
		}
		fmt.Fprintf(&b, ", %d %s", n, unit)
	}
	add(s.Conns, "connection", "connections")
	if s.Depth > 0 {
		fmt.Fprintf(&b, " of depth %d", s.Depth)
	}
	if s.Streams > 1 {
		add(s.Streams, "", "streams a file")
	}
	if s.Shuffle > 1 {
		fmt.Fprintf(&b, ", shuffled in windows of %d", s.Shuffle)
	}
	if s.Cold {
		b.WriteString(", cold")
	}
	if s.Verified {
		b.WriteString(", every byte compared")
	}
	return b.String()
}
