// Command bench measures cold reads: what the server makes of a disk, against
// what the disk can do. It prints Markdown tables: the machine's own disk, and a
// modelled rotational one under each I/O scheduler, with iostat's columns.
//
// Usage, as root, on a machine with nothing else to do:
//
//	go run ./tests/disk/bench [--server bin/sluice] [--rounds 3] [own] [seek] [random] [stall]
//
// Every figure is the median of the rounds; each round does all rows in turn, so
// that what else the machine does falls on all alike. The page cache is dropped
// before each measurement. It takes about ten minutes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"sluice/tests/private"
)

func main() {
	if status, done := private.Again(); done {
		os.Exit(status)
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench is one run of the command.
type bench struct {
	ctx    context.Context
	server string // the program
	dir    string // on the machine's own disk
	work   string // for what is thrown away
	rounds int
	tags   int // of the modelled disk
}

var tables = []struct {
	name string
	f    func(*bench) error
}{{"own", (*bench).ownDisk}, {"random", (*bench).random}, {"seek", (*bench).seekDisk}, {"stall", (*bench).stall}}

func run() error {
	b := &bench{}
	flag.StringVar(&b.server, "server", "bin/sluice", "the server's `program`")
	flag.StringVar(&b.dir, "dir", filepath.Join(os.TempDir(), "sluice-disk-bench"), "`directory` on the disk to measure, where files are kept")
	flag.IntVar(&b.rounds, "rounds", 3, "measurements of each row")
	flag.IntVar(&b.tags, "tags", 0, "requests that the modelled disk takes at once; default the fewest, which leaves most to the scheduler")
	flag.Parse()
	if !private.Inside() {
		return errors.New("this takes root: it mounts a disk")
	}
	var stop func()
	b.ctx, stop = signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if b.server, err = filepath.Abs(b.server); err != nil {
		return err
	}
	if b.work, err = os.MkdirTemp("", "disk-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.work)
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		return err
	}
	return b.tables(flag.Args())
}

// tables makes those that are named, or all.
func (b *bench) tables(names []string) error {
	made := 0
	for _, t := range tables {
		if len(names) > 0 && !contains(names, t.name) {
			continue
		}
		if err := t.f(b); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
		made++
	}
	if made < len(names) {
		return fmt.Errorf("of %q only %d are tables; they are own, random, seek and stall", names, made)
	}
	return nil
}
