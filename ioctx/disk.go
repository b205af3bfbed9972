package ioctx

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// disk is what /sys tells of a block device.
type disk struct {
	dev  uint64 // of the whole disk, so that its partitions are one
	name string // such as sda, or the number of a device that /sys does not know
	// unit is how much one posix_fadvise(POSIX_FADV_WILLNEED) brings in, in
	// bytes: the kernel reads at most the larger of the device's largest request
	// and its read-ahead, and leaves the rest out (force_page_cache_ra in
	// mm/readahead.c).
	unit int64
}

// findDisk looks up in sys, which is /sys, the disk behind a file system by the
// device number that stat(2) gives. File systems without a block device (btrfs,
// overlay) have a number of their own, and only a backing_dev_info.
func findDisk(sys string, dev uint64) disk {
	number := devNumber(dev)
	d := disk{dev: dev, name: number}
	largest := readKiB(filepath.Join(sys, "class/bdi", number, "read_ahead_kb"))
	// The link leads to a directory that lies, for a partition, in its disk's.
	if dir, err := filepath.EvalSymlinks(filepath.Join(sys, "dev/block", number)); err == nil {
		if readLine(filepath.Join(dir, "partition")) != "" {
			dir = filepath.Dir(dir)
		}
		d.name = filepath.Base(dir)
		if whole, ok := parseDev(readLine(filepath.Join(dir, "dev"))); ok {
			d.dev = whole
		}
		queue := filepath.Join(dir, "queue")
		largest = max(readKiB(filepath.Join(queue, "max_sectors_kb")), readKiB(filepath.Join(queue, "read_ahead_kb")))
	}
	d.unit = unitFor(largest)
	return d
}

// unitFor rounds down to a power of two, within bounds.
func unitFor(n int64) int64 {
	unit := int64(unitMax)
	for unit > unitMin && unit > n {
		unit /= 2
	}
	return unit
}

func devNumber(dev uint64) string {
	return strconv.Itoa(int(unix.Major(dev))) + ":" + strconv.Itoa(int(unix.Minor(dev)))
}

func parseDev(s string) (uint64, bool) {
	major, minor, _ := strings.Cut(s, ":")
	a, err1 := strconv.ParseUint(major, 10, 32)
	b, err2 := strconv.ParseUint(minor, 10, 32)
	return unix.Mkdev(uint32(a), uint32(b)), err1 == nil && err2 == nil
}

// readLine returns the first line of a file, empty if it cannot be read.
func readLine(name string) string {
	b, err := os.ReadFile(name)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return line
}

// readKiB returns bytes, 0 if the file is not there.
func readKiB(name string) int64 {
	n, err := strconv.ParseInt(readLine(name), 10, 40)
	if err != nil || n < 0 {
		return 0
	}
	return n << 10
}
