// Command demo shows the server at work in front of a real NFS client: it
// serves a directory in a network namespace, boots a Linux guest next to it
// and lets the guest do what a user would do: mount, ls, dd, sha256sum, and a
// write that has to fail. It prints what it types and what comes back, and
// ends with a table of figures.
//
// Usage:
//
//	go run ./tests/demo [--server bin/sluice] [DIRECTORY]
//
// Without a directory it makes one with 1 GiB of random data below the
// system's temporary directory and keeps it for the next run. Exit status 1
// means that something was not as it should be.
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
)

// limit bounds the whole demo; a run takes about a quarter of it.
const limit = 3 * time.Minute

func main() {
	server := flag.String("server", "bin/sluice", "the server's `program`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := run(ctx, *server, flag.Arg(0)); err != nil {
		fmt.Fprintf(os.Stderr, "\ndemo: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, server, dir string) error {
	if err := guest.Available(); err != nil {
		return fmt.Errorf("%w (tests/setup.sh demo, as root, installs what is missing)", err)
	}
	server, err := filepath.Abs(server)
	if err != nil {
		return err
	}
	heading("The data")
	t, err := openTree(ctx, dir)
	if err != nil {
		return err
	}
	d, err := newDemo(server, t)
	if err != nil {
		return err
	}
	defer d.close()
	steps := []func(context.Context) error{d.serve, d.bootClient, d.localClient, d.stopServer}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	d.printFigures()
	return errors.Join(d.failures...)
}

// heading starts a section of the output.
func heading(text string) {
	if info, err := os.Stdout.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		text = "\x1b[1m" + text + "\x1b[0m"
	}
	fmt.Printf("\n%s\n", text)
}
