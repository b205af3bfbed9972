package bench

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"sluice/nfsd/bench/client"
	"sluice/nfsd/bench/load"
)

// Bounds of the settings.
const (
	MaxRSize   = 4 << 20
	MaxConns   = load.MaxConns
	MaxShuffle = 1 << 16
	MaxStreams = 1024
	// DefaultRSize is what the Linux client asks for.
	DefaultRSize = 1 << 20
)

// Options are a measurement's.
type Options struct {
	Settings
	Targets []client.Target // files for Read, on one server; one object for Meta
	// Bytes is how much of each file to read; 0 means all.
	Bytes uint64
	// Loops is how many times to read it; 0 means until Time has passed.
	Loops int
	// Calls is how many calls Meta makes; 0 means until Time has passed.
	Calls uint64
	// Time ends the measurement, after the replies under way; 0 means no limit.
	Time time.Duration
	// Timeout is how long a reply may take.
	Timeout time.Duration
	// Threads of the load generator; 0 means half of the CPUs.
	Threads int
	// Verify names local files that hold what the Targets must, one for each; none
	// means not to compare.
	Verify []string
	// Progress, if set, is called now and then with what has been done, in bytes or
	// calls, and how much there is to do; 0 if that is not known.
	Progress func(done, total uint64)
}

// UsageError is an error of what was asked for.
type UsageError struct{ Err error }

func (e UsageError) Error() string { return e.Err.Error() }
func (e UsageError) Unwrap() error { return e.Err }

func usage(format string, a ...any) error { return UsageError{fmt.Errorf(format, a...)} }

func (o *Options) check() error {
	between := func(what string, n, low, high int) error {
		if n < low || n > high {
			return usage("%s %d: must be from %d to %d", what, n, low, high)
		}
		return nil
	}
	err := errors.Join(between("connections", o.Conns, 1, load.MaxConns), between("depth", o.Depth, 1, load.MaxDepth),
		between("rsize", o.RSize, 0, MaxRSize), between("shuffle", o.Shuffle, 0, MaxShuffle),
		between("streams", o.Streams, 0, MaxStreams), between("threads", o.Threads, 0, load.MaxConns))
	switch {
	case err != nil:
		return err
	case o.Timeout <= 0:
		return usage("timeout %v: must be more than 0", o.Timeout)
	case o.Time < 0 || o.Loops < 0:
		return usage("time and loops must not be negative")
	case len(o.Targets) == 0:
		return usage("nothing to measure")
	case len(o.Verify) > 0 && len(o.Verify) != len(o.Targets):
		return usage("%d files to compare with for %d files", len(o.Verify), len(o.Targets))
	case o.Cold && o.Loops != 1:
		return usage("what is cold can be read once only, not in several loops")
	}
	for _, t := range o.Targets[1:] {
		first := o.Targets[0]
		if t.Host != first.Host || t.Port != first.Port || t.MountPort != first.MountPort {
			return usage("%s and %s: must be on one server", first.URL(), t.URL())
		}
	}
	return nil
}

// ParseSize reads a number of bytes, with K, M, G or T for KiB, MiB, GiB or TiB.
func ParseSize(s string) (uint64, error) {
	const units = "KMGT"
	digits, shift := s, 0
	if s != "" {
		if i := strings.IndexByte(units, s[len(s)-1]); i >= 0 {
			digits, shift = s[:len(s)-1], 10*(i+1)
		}
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || n == 0 || n > (1<<63-1)>>shift {
		return 0, fmt.Errorf("size %q: must be a number of bytes, with K, M, G or T for KiB to TiB", s)
	}
	return n << shift, nil
}

// FormatSize writes a size as ParseSize reads it.
func FormatSize(n uint64) string {
	unit := ""
	for _, u := range []string{"K", "M", "G", "T"} {
		if n == 0 || n%1024 != 0 {
			break
		}
		n, unit = n/1024, u
	}
	return strconv.FormatUint(n, 10) + unit
}

// SizeName writes a size for people, as 64 KiB.
func SizeName(n int) string {
	s := FormatSize(uint64(n))
	if unit := len(s) - 1; s[unit] > '9' {
		return s[:unit] + " " + s[unit:] + "iB"
	}
	return s + " bytes"
}
