package report

import (
	"fmt"
	"io"
	"strings"

	"sluice/nfsd/bench"
	"sluice/nfsd/bench/host"
)

// Text prints one measurement for a reader at a terminal.
func Text(w io.Writer, r *bench.Result) {
	fmt.Fprintf(w, "%s  %s\n", r.Target, r.Settings)
	if r.Files > 1 {
		fmt.Fprintf(w, "and %d more files, side by side\n", r.Files-1)
	}
	if r.Partial {
		fmt.Fprintln(w, "INTERRUPTED: what follows is a part of what was asked for")
	}
	if r.IsRead() {
		fmt.Fprintf(w, "%d bytes (%.1f GB) read, %.3f s, %s\n", r.Bytes, float64(r.Bytes)/1e9, r.Seconds, rate(r))
	} else {
		fmt.Fprintf(w, "%d calls, %.3f s, %s\n", r.Calls, r.Seconds, rate(r))
	}
	l := r.Latency
	fmt.Fprintf(w, "latency  p50 %s  p90 %s  p99 %s  p99.9 %s  max %s\n", micros(l.P50), micros(l.P90), micros(l.P99), micros(l.P999), micros(l.Max))
	if s := r.Server; s != nil {
		fmt.Fprintf(w, "server   %s: %s%s, %.0f %% of a CPU\n", s.Name, cost(r, s.Total()), byRole(r), 100*s.Total()/r.Seconds)
	} else {
		fmt.Fprintln(w, "server   its CPU is not to be seen: it is not on this machine, or another user's")
	}
	fmt.Fprintf(w, "client   %s, %.0f %% of a CPU\n", cost(r, r.ClientCPU), 100*r.ClientCPU/r.Seconds)
	if d := r.Disk; d != nil && r.IsRead() {
		fmt.Fprintf(w, "disk     %s: %.0f reads/s of %.0f KiB, %.0f %% busy\n", d.Name, d.ReadsPerSecond, d.RequestKiB, d.BusyPercent)
	}
}

func rate(r *bench.Result) string {
	if r.IsRead() {
		return fmt.Sprintf("%.3f GB/s", r.Rate()/1e9)
	}
	return fmt.Sprintf("%.0f calls/s", r.Rate())
}

func cost(r *bench.Result, cpuSeconds float64) string {
	if r.IsRead() {
		return fmt.Sprintf("%.0f ms of CPU per GB", r.Cost(cpuSeconds))
	}
	return fmt.Sprintf("%.2f µs of CPU per call", r.Cost(cpuSeconds))
}

// byRole tells Sluice's threads apart; other servers' are one.
func byRole(r *bench.Result) string {
	if _, only := r.Server.CPU[host.Other]; only && len(r.Server.CPU) == 1 {
		return ""
	}
	var parts []string
	for _, role := range host.Roles {
		if s, ok := r.Server.CPU[role]; ok {
			parts = append(parts, fmt.Sprintf("%s %.4g", role, r.Cost(s)))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// micros formats a time of so many microseconds.
func micros(us float64) string {
	if us >= 1000 {
		return fmt.Sprintf("%.2f ms", us/1000)
	}
	return fmt.Sprintf("%.0f µs", us)
}
