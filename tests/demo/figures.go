package main

import (
	"fmt"
	"time"
)

// figure is one row of the final table: one reading of the whole file.
type figure struct {
	reader  string
	bytes   int64
	elapsed time.Duration
	cpu     time.Duration // the server's, user and system
}

// All units are decimal, as dd's are.
func (f figure) mbPerSecond() float64 { return float64(f.bytes) / 1e6 / f.elapsed.Seconds() }
func (f figure) cpuMsPerGB() float64 {
	return float64(f.cpu.Milliseconds()) / (float64(f.bytes) / 1e9)
}

func (d *demo) printFigures() {
	heading("Figures")
	fmt.Printf("  %-46s %12s %8s %6s %17s\n", "who read the file", "bytes", "seconds", "MB/s", "server CPU ms/GB")
	for _, f := range d.figures {
		fmt.Printf("  %-46s %12d %8.2f %6.0f %17.0f\n", f.reader, f.bytes, f.elapsed.Seconds(), f.mbPerSecond(), f.cpuMsPerGB())
	}
	fmt.Printf("  mount options the kernel client agreed on: %s\n", d.options)
	fmt.Println("  The guest is a kernel in a process with one slow CPU: it shows that a real client is served")
	fmt.Println("  correctly; nfs-cat shows more of the server's speed, though the client is still the brake.")
	for _, err := range d.failures {
		fmt.Printf("  FAILED: %v\n", err)
	}
	if len(d.failures) == 0 {
		fmt.Println("  All checks passed.")
	}
}
