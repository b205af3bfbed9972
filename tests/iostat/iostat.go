// Package iostat counts what a block device does, from /proc/diskstats, in
// iostat(1)'s columns.
package iostat

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Counters are what the kernel has counted for a device since it came to be
// (Documentation/admin-guide/iostats.rst).
type Counters struct {
	Reads      uint64        // completed
	Merged     uint64        // reads merged with others before they were queued
	ReadBytes  uint64        // of the reads completed
	Busy       time.Duration // with anything in flight
	at         time.Time
	readWaited time.Duration // all reads together
}

// Read reads the counters of a device, such as vda or loop3.
func Read(device string) (Counters, error) {
	b, err := os.ReadFile("/proc/diskstats")
	if err != nil {
		return Counters{}, err
	}
	c, err := parse(string(b), device)
	c.at = time.Now()
	return c, err
}

func parse(diskstats, device string) (c Counters, err error) {
	for line := range strings.Lines(diskstats) {
		f := strings.Fields(line)
		if len(f) < 13 || f[2] != device {
			continue
		}
		var v [10]uint64
		for i := range v {
			if v[i], err = strconv.ParseUint(f[3+i], 10, 64); err != nil {
				return c, fmt.Errorf("/proc/diskstats: %q: %w", line, err)
			}
		}
		c.Reads, c.Merged, c.ReadBytes = v[0], v[1], v[2]*512
		c.readWaited, c.Busy = time.Duration(v[3])*time.Millisecond, time.Duration(v[9])*time.Millisecond
		return c, nil
	}
	return c, fmt.Errorf("/proc/diskstats: no device %q", device)
}

// Columns are iostat's, of the time between two readings.
type Columns struct {
	ReadsPerSecond  float64 // r/s
	KBPerSecond     float64 // rkB/s
	MergedPerSecond float64 // rrqm/s
	MeanKB          float64 // rareq-sz, in KiB
	AwaitMs         float64 // r_await
	Util            float64 // %util
	Reads           uint64  // in all
}

// Since returns the columns of the time from an earlier reading to this one.
func (c Counters) Since(before Counters) (v Columns) {
	return c.over(before, c.at.Sub(before.at))
}

func (c Counters) over(before Counters, t time.Duration) (v Columns) {
	s := max(t.Seconds(), 1e-9)
	v.Reads = c.Reads - before.Reads
	bytes := float64(c.ReadBytes - before.ReadBytes)
	v.ReadsPerSecond = float64(v.Reads) / s
	v.KBPerSecond = bytes / 1024 / s
	v.MergedPerSecond = float64(c.Merged-before.Merged) / s
	v.Util = 100 * (c.Busy - before.Busy).Seconds() / s
	if v.Reads > 0 {
		v.MeanKB = bytes / 1024 / float64(v.Reads)
		v.AwaitMs = float64((c.readWaited - before.readWaited).Milliseconds()) / float64(v.Reads)
	}
	return v
}

// Header and Row are for a Markdown table.
const Header = "r/s | rkB/s | rrqm/s | rareq-sz | r_await | %util"

// Row is the values of Header's columns.
func (v Columns) Row() string {
	return fmt.Sprintf("%.0f | %.0f | %.0f | %.0f | %.2f | %.0f",
		v.ReadsPerSecond, v.KBPerSecond, v.MergedPerSecond, v.MeanKB, v.AwaitMs, v.Util)
}
