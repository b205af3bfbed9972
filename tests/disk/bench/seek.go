package main

import (
	"fmt"
	"os"
	"time"

	"sluice/tests/disk/daemon"
	"sluice/tests/iostat"
	"sluice/tests/seekdisk"
)

const (
	seekFile = 128 << 20 // bytes
	// seekFileOff is how much of each file is read where it takes long.
	seekFileOff = 32 << 20
)

// mode is a way for the server to read.
type mode struct {
	name      string
	args      []string
	bytes     int64 // of each file
	readAhead int   // the kernel's, in KiB
}

var modes = []mode{
	{"shared", []string{"--io-context", "shared"}, seekFile, 128},
	{"private", []string{"--io-context", "private"}, seekFile, 128},
	{"readahead off, the kernel's 0", []string{"--readahead", "off"}, seekFileOff, 0},
}

// seekDisk is the table of the modelled rotational disk.
func (b *bench) seekDisk() error {
	d, err := seekdisk.Start(b.work, seekdisk.Options{Tags: b.tags})
	if err != nil {
		return err
	}
	defer func() {
		if err := d.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
	}()
	files, err := makeFiles(d.Dir(), 4, seekFile)
	if err != nil {
		return err
	}
	heading(fmt.Sprintf("Files read side by side from a modelled rotational disk (120 MB/s, 8 ms a seek), medians of %d; 128 KiB, 4 × 8 outstanding, 8 server threads.", b.rounds),
		"scheduler", "files", "server", "MB/s", "of one local dd", "seeks", "head MB/s", iostat.Header)
	for _, scheduler := range []string{"mq-deadline", "bfq", "none"} {
		if err := d.SetScheduler(scheduler); err != nil {
			return err
		}
		if err := b.oneScheduler(d, scheduler, files); err != nil {
			return fmt.Errorf("%s: %w", scheduler, err)
		}
	}
	return nil
}

func (b *bench) oneScheduler(d *seekdisk.Disk, scheduler string, files []string) error {
	rows := []*row{{name: scheduler + " | 1 | local dd", run: func() (figure, error) { return b.localDD(d, files[0]) }}}
	for _, m := range modes {
		s, err := b.serve(d.Dir(), append(m.args, "--threads", "8")...)
		if err != nil {
			return err
		}
		defer s.Kill()
		for _, n := range []int{2, 4} {
			rows = append(rows, &row{
				name: fmt.Sprintf("%s | %d | %s", scheduler, n, m.name),
				run:  func() (figure, error) { return b.sideBySide(d, s, m, files[:n]) },
			})
		}
	}
	if err := b.measureRows(rows); err != nil {
		return err
	}
	base := median(rows[0].figures)
	for _, r := range rows {
		m := median(r.figures)
		fmt.Printf("| %s | %.1f | %.2f | %d | %.1f | %s |\n", r.name, m.mbs(), m.rate/base.rate, m.seeks, m.headRate/1e6, m.disk.Row())
	}
	return nil
}

// sideBySide reads files through the server.
func (b *bench) sideBySide(d *seekdisk.Disk, s *daemon.Server, m mode, files []string) (figure, error) {
	if err := d.SetReadAhead(m.readAhead); err != nil {
		return figure{}, err
	}
	l := load{rsize: "128K", conns: 4, depth: 8, bytes: fmt.Sprint(m.bytes)}
	return b.counted(d, files, func() (figure, error) { return b.measure(s, l, d.Name(), files...) })
}

// localDD reads a file as dd does, through the page cache with the kernel's own
// read-ahead.
func (b *bench) localDD(d *seekdisk.Disk, file string) (figure, error) {
	if err := d.SetReadAhead(128); err != nil {
		return figure{}, err
	}
	return b.counted(d, []string{file}, func() (figure, error) {
		before, err := iostat.Read(d.Name())
		if err != nil {
			return figure{}, err
		}
		begin := time.Now()
		if _, err := b.command("dd", "if="+file, "of=/dev/null", "bs=1M"); err != nil {
			return figure{}, err
		}
		return b.figure(seekFile, time.Since(begin).Seconds(), d.Name(), before)
	})
}

// counted is a cold measurement with the seeks that it took.
func (b *bench) counted(d *seekdisk.Disk, files []string, run func() (figure, error)) (f figure, err error) {
	if err = drop(files...); err != nil {
		return f, err
	}
	if err = d.Reset(); err != nil {
		return f, err
	}
	if f, err = run(); err != nil {
		return f, err
	}
	st, err := d.Stats()
	f.seeks, f.headRate = st.Seeks, st.HeadRate()
	return f, err
}
