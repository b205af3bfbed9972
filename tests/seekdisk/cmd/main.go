// Command cmd runs a modelled rotational disk (package seekdisk) until Ctrl-C.
//
// Usage, as root:
//
//	go run ./tests/seekdisk/cmd [--size MiB] [--rate MB/s] [--seek 8ms] [--ncq N] … DIR
//
// The file system is at DIR/fs. DIR/drive/control reads as the drive's counters;
// "stall 5s", "stall", "release", "fail OFFSET BYTES", "heal" and "reset" can be
// written to it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"sluice/tests/seekdisk"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	size := flag.Int64("size", 4096, "capacity in `MiB`")
	rate := flag.Int64("rate", 120, "transfer rate in `MB/s`")
	seek := flag.Duration("seek", 8*time.Millisecond, "cost of a seek")
	ncq := flag.Int("ncq", 1, "requests the drive chooses from")
	tags := flag.Int("tags", 0, "requests dispatched to the drive at once (default those it chooses from, at least 4)")
	buffer := flag.Int64("buffer", 2048, "track buffer in `KiB`")
	scheduler := flag.String("scheduler", "mq-deadline", "I/O scheduler")
	readAhead := flag.Int("read-ahead", 128, "the kernel's read-ahead in `KiB`")
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		return errors.New("one directory is needed")
	}
	// Zero means the default to Start, none to who types it.
	if *seek == 0 {
		*seek = -1
	}
	if *readAhead == 0 {
		*readAhead = -1
	}
	d, err := seekdisk.Start(flag.Arg(0), seekdisk.Options{
		Size: *size << 20, Rate: *rate * 1e6, Seek: *seek, NCQ: *ncq, Tags: *tags, TrackBuffer: *buffer << 10,
		Scheduler: *scheduler, ReadAheadKB: *readAhead,
	})
	if err != nil {
		return err
	}
	fmt.Printf("file system  %s\ndevice       %s\ncontrol      %s\n", d.Dir(), d.Device(), d.Control())
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	<-stop
	return d.Close()
}
