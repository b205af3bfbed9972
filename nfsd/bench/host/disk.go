package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Disk is the block device below a file.
type Disk struct {
	Name string
	stat string // its stat file in /sys
}

// DiskOf finds the block device that holds a file. Files of tmpfs, of networks and
// of some other file systems have none.
func DiskOf(file string) (*Disk, error) {
	var st unix.Stat_t
	if err := unix.Stat(file, &st); err != nil {
		return nil, err
	}
	dir := fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev))
	link, err := os.Readlink(dir)
	if err != nil {
		return nil, errors.New("no block device holds the file")
	}
	return &Disk{Name: filepath.Base(link), stat: filepath.Join(dir, "stat")}, nil
}

// DiskCounters are from a block device's stat file
// (Documentation/block/stat.rst).
type DiskCounters struct {
	reads, sectors uint64
	busy           time.Duration
}

// Counters reads the device's counters.
func (d *Disk) Counters() (DiskCounters, error) {
	text, err := os.ReadFile(d.stat)
	if err != nil {
		return DiskCounters{}, err
	}
	return parseDiskStat(string(text))
}

func parseDiskStat(text string) (c DiskCounters, err error) {
	f := strings.Fields(text)
	if len(f) < 11 {
		return c, fmt.Errorf("unexpected block device stat %q", text)
	}
	var n [11]uint64
	for i := range n {
		if n[i], err = strconv.ParseUint(f[i], 10, 64); err != nil {
			return c, fmt.Errorf("unexpected block device stat %q", text)
		}
	}
	return DiskCounters{reads: n[0], sectors: n[2], busy: time.Duration(n[9]) * time.Millisecond}, nil
}

// DiskUse is what a device did in a stretch of time: r/s, rareq-sz and %util of
// iostat(1).
type DiskUse struct {
	Name           string  `json:"name"`
	ReadsPerSecond float64 `json:"reads_per_second"`
	RequestKiB     float64 `json:"request_kib"` // mean
	BusyPercent    float64 `json:"busy_percent"`
}

// Since is the use between two readings.
func (c DiskCounters) Since(earlier DiskCounters, name string, elapsed time.Duration) DiskUse {
	u := DiskUse{Name: name}
	reads := float64(c.reads - earlier.reads)
	if s := elapsed.Seconds(); s > 0 {
		u.ReadsPerSecond = reads / s
		u.BusyPercent = min(100, 100*(c.busy-earlier.busy).Seconds()/s)
	}
	if reads > 0 {
		u.RequestKiB = float64(c.sectors-earlier.sectors) / 2 / reads // sectors are 512 bytes
	}
	return u
}
