package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"sluice/nfsd/bench/host"
	"sluice/tests/disk/daemon"
	"sluice/tests/iostat"
)

const (
	ownFile  = 1 << 30 // bytes
	ownFiles = 512 << 20
)

// ownDisk is the table of the machine's own disk.
func (b *bench) ownDisk() error {
	big, err := makeFiles(b.dir, 1, ownFile)
	if err != nil {
		return err
	}
	four, err := makeFiles(b.dir, 4, ownFiles)
	if err != nil {
		return err
	}
	disk, err := host.DiskOf(big[0])
	if err != nil {
		return err
	}
	if ra, err := os.ReadFile("/sys/block/" + disk.Name + "/queue/read_ahead_kb"); err != nil || string(ra) != "128\n" {
		fmt.Fprintf(os.Stderr, "bench: %s's read_ahead_kb is %s, the figures are meant for the usual 128\n", disk.Name, strings.TrimSpace(string(ra)))
	}
	s, err := b.serve(b.dir)
	if err != nil {
		return err
	}
	defer s.Kill()
	cold := func(name string, l load, files []string) *row {
		return &row{name: name, run: func() (figure, error) {
			if err := drop(files...); err != nil {
				return figure{}, err
			}
			return b.measure(s, l, disk.Name, files...)
		}}
	}
	rows := []*row{
		{name: "fio, direct, 1 MiB, depth 8", run: func() (figure, error) { return b.fio(big[0], disk.Name) }},
		cold("128 KiB, 4 × 8, shuffled in 16", load{rsize: "128K", conns: 4, depth: 8, shuffle: 16}, big),
		cold("128 KiB, 4 × 8, in order", load{rsize: "128K", conns: 4, depth: 8}, big),
		cold("1 MiB, 4 × 8, shuffled in 16", load{rsize: "1M", conns: 4, depth: 8, shuffle: 16}, big),
		cold("1 MiB, 4 × 8, in order", load{rsize: "1M", conns: 4, depth: 8}, big),
		cold("4 files, 128 KiB, 4 × 8", load{rsize: "128K", conns: 4, depth: 8}, four),
	}
	if err := b.measureRows(rows); err != nil {
		return err
	}
	printRows(fmt.Sprintf("Cold reads of %s (%s), medians of %d; reads by 4 connections with 8 outstanding each.",
		disk.Name, queueOf(disk.Name), b.rounds), rows)
	return s.End()
}

// queueOf tells the settings of a device that matter.
func queueOf(device string) string {
	var all []string
	for _, attr := range []string{"scheduler", "read_ahead_kb", "rotational"} {
		v, err := os.ReadFile("/sys/block/" + device + "/queue/" + attr)
		if err != nil {
			continue
		}
		all = append(all, attr+" "+strings.TrimSpace(string(v)))
	}
	return strings.Join(all, ", ")
}

// fio reads a file past the page cache, as fast as the disk is.
func (b *bench) fio(file, device string) (figure, error) {
	before, err := iostat.Read(device)
	if err != nil {
		return figure{}, err
	}
	out, err := b.command("fio", "--name=base", "--filename="+file, "--readonly", "--rw=read", "--bs=1M",
		"--iodepth=8", "--direct=1", "--ioengine=libaio", "--output-format=json")
	if err != nil {
		return figure{}, err
	}
	var r struct {
		Jobs []struct {
			Read struct {
				Bytes   uint64  `json:"io_bytes"`
				Runtime float64 // ms
			}
		}
	}
	if err := json.Unmarshal(out, &r); err != nil || len(r.Jobs) != 1 {
		return figure{}, fmt.Errorf("fio: %v: %s", err, out)
	}
	return b.figure(r.Jobs[0].Read.Bytes, r.Jobs[0].Read.Runtime/1000, device, before)
}

// shuffleMax is the longest window that bench dd shuffles in.
const shuffleMax = 65536

// random is the table of random reads: they gain nothing by reading ahead, and
// must lose nothing.
func (b *bench) random() error {
	big, err := makeFiles(b.dir, 1, ownFile)
	if err != nil {
		return err
	}
	disk, err := host.DiskOf(big[0])
	if err != nil {
		return err
	}
	var rows []*row
	for _, readAhead := range []string{"off", "auto"} {
		s, err := b.serve(b.dir, "--readahead", readAhead)
		if err != nil {
			return err
		}
		defer s.Kill()
		for _, kib := range []int{4, 64} {
			name := fmt.Sprintf("%d KiB, readahead %s", kib, readAhead)
			rows = append(rows, &row{name: name, run: func() (figure, error) { return b.randomReads(s, kib, disk.Name, big[0]) }})
		}
	}
	if err := b.measureRows(rows); err != nil {
		return err
	}
	title := fmt.Sprintf("Random cold reads of %s, 4 × 8 outstanding, medians of %d.", disk.Name, b.rounds)
	// Each size has its own base.
	printRows(title, []*row{rows[0], rows[2]})
	printRows("", []*row{rows[1], rows[3]})
	return nil
}

// randomReads reads a file in random order: shuffled in a window as long as what
// is read. It ends before anything is read twice.
func (b *bench) randomReads(s *daemon.Server, kib int, device, file string) (figure, error) {
	if err := drop(file); err != nil {
		return figure{}, err
	}
	reads := min(ownFile/(kib<<10), shuffleMax)
	l := load{rsize: fmt.Sprintf("%dK", kib), conns: 4, depth: 8, shuffle: reads, bytes: fmt.Sprint(reads * kib << 10)}
	return b.measure(s, l, device, file)
}
