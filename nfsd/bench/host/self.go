package host

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Self is the CPU time that this process has used.
func Self() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Busy is the CPU time that all of this machine has used, and that other virtual
// machines have taken from it ("cpu" of proc_stat(5)). It counts in hundredths of a
// second.
func Busy() time.Duration {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	d, _ := parseBusy(string(text))
	return d
}

func parseBusy(text string) (time.Duration, error) {
	const idle, iowait, steal = 3, 4, 7 // guest time, behind them, is counted as user time too
	line, _, _ := strings.Cut(text, "\n")
	f := strings.Fields(line)
	if len(f) < 9 || f[0] != "cpu" {
		return 0, fmt.Errorf("unexpected first line of /proc/stat %q", line)
	}
	var sum time.Duration
	for i, field := range f[1 : steal+2] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("unexpected first line of /proc/stat %q", line)
		}
		if i != idle && i != iowait {
			sum += time.Duration(n) * (time.Second / 100)
		}
	}
	return sum, nil
}
