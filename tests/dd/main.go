// Command dd repeats the dd test of 2008, in which NFS server threads without a
// common I/O context turned one sequential reader into many that jump about: a real
// Linux client (in a guest, package guest) reads a file with dd from a modelled
// rotational disk (package seekdisk), cold and warm, with 1 to 32 server threads,
// under each I/O scheduler, with shared and private I/O contexts. It prints a
// Markdown table with iostat's columns beside each row.
//
// Usage, as root:
//
//	go run ./tests/dd [--server bin/sluice]
//
// The guest is a kernel in a process with one slow CPU, so the warm rows show its
// limit and not the server's.
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
	"time"

	"sluice/tests/guest"
	"sluice/tests/pattern"
	"sluice/tests/private"
	"sluice/tests/seekdisk"
)

const (
	// limit bounds a run, which takes about a third of it.
	limit = 10 * time.Minute
	// fileSize is what dd reads, in bytes.
	fileSize = 128 << 20
	fileName = "file"
	// guestMiB is the guest's memory: more than the file, which its own page
	// cache need not drop while it is read.
	guestMiB = 384
)

func main() {
	if status, done := private.Again(); done {
		os.Exit(status)
	}
	server := flag.String("server", "bin/sluice", "the server's `program`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := run(ctx, *server); err != nil {
		fmt.Fprintln(os.Stderr, "dd:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, server string) (err error) {
	if err := guest.Available(); err != nil {
		return fmt.Errorf("%w (tests/setup.sh dd-test, as root, installs what is missing)", err)
	}
	if server, err = filepath.Abs(server); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "dd-test-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	// The disk comes first: the guest's namespace has what is mounted by then.
	disk, err := seekdisk.Start(work, seekdisk.Options{Size: 512 << 20})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, disk.Close()) }()
	if err := pattern.WriteFile(filepath.Join(disk.Dir(), fileName), 1, fileSize); err != nil {
		return err
	}
	g, err := guest.New(guest.Options{MemMiB: guestMiB})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	t := &test{server: server, work: work, disk: disk, guest: g}
	defer t.close()
	return t.run(ctx)
}
