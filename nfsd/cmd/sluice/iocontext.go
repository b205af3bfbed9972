package main

import (
	"fmt"
	"io"

	"sluice/ioctx"
)

// parseReadAhead understands --readahead.
func parseReadAhead(s string) (int64, error) {
	const flag = "--readahead"
	switch s {
	case "auto":
		return ioctx.ReadAheadAuto, nil
	case "off":
		return ioctx.ReadAheadOff, nil
	}
	n, err := parseSize(flag, s)
	if err != nil || n < 256<<10 || n > 1<<30 {
		return 0, fmt.Errorf("%s %q: must be auto, off, or from 256K to 1024M", flag, s)
	}
	return int64(n), nil
}

// ioConfig is the I/O context that the command line asks for.
func (c *config) ioConfig(l limits) ioctx.Config {
	cfg := ioctx.Config{MaxFiles: l.files, MaxPipes: l.pipes, ReadAhead: c.readAhead, NoRing: c.noRing, Log: c.log}
	if c.private {
		cfg.Private = c.threads
	}
	return cfg
}

func printIO(w io.Writer, s ioctx.Stats) {
	fmt.Fprintf(w, "io context   %s: %d submitters, %d workers, kernel io_contexts %d, readahead %s\n",
		s.Mode, s.Submitters, s.Workers, s.Contexts, s.ReadAhead)
	for _, d := range append(s.Devices, s.Total) {
		fmt.Fprintf(w, "  %-10s %d streams, %d requests, %d MiB (%d ahead, %d wasted), reads: %d waited, %d of them for what was coming, %d found it; turns %d, lost %d, failed %d, gave up %d",
			d.Name, d.Streams, d.Requests, d.Bytes>>20, d.Ahead>>20, d.Waste>>20, d.Waits, d.Coalesced, d.Hits, d.Turns, d.Lost, d.Failed, d.GaveUp)
		if d.Stuck {
			fmt.Fprint(w, ", does not answer")
		}
		fmt.Fprintln(w)
	}
}
