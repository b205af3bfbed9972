package main

import (
	"fmt"
	"io"
	"time"

	"sluice/nfsd/sendpath"
)

func printSend(w io.Writer, s sendpath.Stats) {
	fmt.Fprintf(w, "send path    %s, up to %d KiB into the batch: %d in the batch, %d spliced, %d through a ring, %d copied\n",
		s.Mode, s.SmallRead>>10, s.Inline, s.Spliced, s.Ringed, s.Copied)
	if s.Note != "" {
		fmt.Fprintf(w, "             %s\n", s.Note)
	}
	if s.Rings > 0 {
		fmt.Fprintf(w, "             %d rings, at most %d workers\n", s.Rings, s.Workers)
	}
	fmt.Fprintf(w, "             not as chosen: %d for want of a pipe, %d of splice, %d of the ring, %d of memory\n",
		s.NoPipe, s.Refused, s.NoRing, s.NoRoom)
	fmt.Fprint(w, "             threads held by sends:")
	for _, b := range s.Held {
		if b.Micros == 0 {
			fmt.Fprintf(w, " longer %d", b.Count)
		} else {
			fmt.Fprintf(w, " <=%dus %d", b.Micros, b.Count)
		}
	}
	fmt.Fprintln(w)
	for _, z := range s.Sizes {
		if z.SpliceNs+z.SeenSpliceNs+z.SeenCopyNs == 0 {
			continue
		}
		fmt.Fprintf(w, "    %5dK %-6s CPU at start: copy %s, splice %s, uring %s; seen: copy %s, splice %s\n", z.Bytes>>10, z.Path,
			cost(z.CopyNs), cost(z.SpliceNs), cost(z.UringNs), cost(z.SeenCopyNs), cost(z.SeenSpliceNs))
	}
}

// cost is a read's CPU time.
func cost(ns int64) string {
	if ns == 0 {
		return "-"
	}
	return time.Duration(ns).Round(100 * time.Nanosecond).String()
}
