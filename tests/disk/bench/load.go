package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/nfsd/bench/host"
	"sluice/tests/disk/daemon"
	"sluice/tests/iostat"
	"sluice/tests/pattern"
)

// load is how a client reads.
type load struct {
	rsize   string
	conns   int
	depth   int
	shuffle int
	bytes   string        // of each file; all by default
	time    time.Duration // read in loops for so long
}

// figure is one measurement.
type figure struct {
	rate float64 // bytes per second
	disk iostat.Columns
	// Of a modelled disk: its seeks, and the rate at which its head would have
	// delivered the same without a pause.
	seeks    uint64
	headRate float64
}

// serve starts a server that exports dir, for a measurement.
func (b *bench) serve(dir string, args ...string) (*daemon.Server, error) {
	return daemon.Start(daemon.Options{
		Bin: b.server, Work: b.work, Args: args,
		Exports: dir + " *(ro,insecure,no_root_squash,no_subtree_check)\n",
	})
}

// measure reads files through the server.
func (b *bench) measure(s *daemon.Server, l load, device string, files ...string) (f figure, err error) {
	args := []string{"bench", "dd", "--json", "--conns", strconv.Itoa(l.conns), "--depth", strconv.Itoa(l.depth), "--rsize", l.rsize}
	if l.shuffle > 0 {
		args = append(args, "--shuffle", strconv.Itoa(l.shuffle))
	}
	if l.bytes != "" {
		args = append(args, "--bytes", l.bytes)
	}
	if l.time > 0 {
		args = append(args, "--time", l.time.String())
	}
	for _, file := range files {
		args = append(args, "nfs://"+s.Addr+file)
	}
	before, err := iostat.Read(device)
	if err != nil {
		return f, err
	}
	out, err := b.command(b.server, args...)
	if err != nil {
		return f, err
	}
	var r struct {
		Bytes   uint64
		Seconds float64
	}
	if err := json.Unmarshal(out, &r); err != nil {
		return f, fmt.Errorf("bench dd: %w: %s", err, out)
	}
	return b.figure(r.Bytes, r.Seconds, device, before)
}

// figure is of a reading of bytes that began at before.
func (b *bench) figure(bytes uint64, seconds float64, device string, before iostat.Counters) (f figure, err error) {
	after, err := iostat.Read(device)
	if err != nil {
		return f, err
	}
	if bytes == 0 || seconds <= 0 {
		return f, errors.New("nothing was read")
	}
	return figure{rate: float64(bytes) / seconds, disk: after.Since(before)}, nil
}

// command runs a program and returns what it prints.
func (b *bench) command(name string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(b.ctx, 5*time.Minute)
	defer cancel()
	var errs bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, out, errs.String())
	}
	return out, nil
}

// makeFiles makes n files of size bytes in dir, unless they are there.
func makeFiles(dir string, n int, size int64) (files []string, err error) {
	for i := range n {
		file := filepath.Join(dir, fmt.Sprintf("file%d-%dm", i, size>>20))
		if info, err := os.Stat(file); err != nil || info.Size() != size {
			if err := pattern.WriteFile(file, uint64(i+1), size); err != nil {
				return nil, err
			}
		}
		files = append(files, file)
	}
	return files, nil
}

// drop empties the page cache of files, and checks that it is empty. (The sysctl
// vm.drop_caches would do it for all files of the machine, and wait for every
// file system that hangs.)
func drop(files ...string) error {
	for _, file := range files {
		if err := host.DropFile(file); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

func contains(list []string, s string) bool { return slices.Contains(list, s) }

// median of figures is the one in the middle by rate.
func median(fs []figure) figure {
	fs = slices.Clone(fs)
	slices.SortFunc(fs, func(a, b figure) int { return cmp.Compare(a.rate, b.rate) })
	return fs[len(fs)/2]
}
