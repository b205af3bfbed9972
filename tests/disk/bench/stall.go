package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"sluice/nfsd/bench/host"
	"sluice/tests/disk/daemon"
	"sluice/tests/seekdisk"
)

const (
	stallTime = 5 * time.Second
	warmFile  = 64 << 20 // bytes
)

// stall is the table of what one hung device does to others: another device, cold,
// and what is in the page cache.
func (b *bench) stall() error {
	d, err := seekdisk.Start(b.work, seekdisk.Options{})
	if err != nil {
		return err
	}
	defer func() {
		if err := d.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
	}()
	hung, err := makeFiles(d.Dir(), 1, seekFile)
	if err != nil {
		return err
	}
	big, err := makeFiles(b.dir, 1, ownFile)
	if err != nil {
		return err
	}
	warm, err := makeFiles(b.dir, 1, warmFile)
	if err != nil {
		return err
	}
	own, err := host.DiskOf(big[0])
	if err != nil {
		return err
	}
	exports := ""
	for _, dir := range []string{d.Dir(), b.dir} {
		exports += dir + " *(ro,insecure,no_root_squash,no_subtree_check)\n"
	}
	s, err := daemon.Start(daemon.Options{Bin: b.server, Work: b.work, Exports: exports, Args: []string{"--threads", "8"}})
	if err != nil {
		return err
	}
	defer s.Kill()
	l := load{rsize: "128K", conns: 4, depth: 8}
	cold := func() (figure, error) {
		if err := drop(big[0]); err != nil {
			return figure{}, err
		}
		return b.measure(s, l, own.Name, big[0])
	}
	warmLoad := load{rsize: "128K", conns: 4, depth: 8, time: stallTime / 2}
	fromCache := func() (figure, error) { return b.measure(s, warmLoad, own.Name, warm[0]) }
	if _, err := b.measure(s, l, own.Name, warm[0]); err != nil { // into the page cache
		return err
	}
	during := func(f func() (figure, error)) func() (figure, error) {
		return func() (figure, error) { return b.whileStalled(d, s, hung[0], f) }
	}
	coldRows := []*row{{name: "cold, own disk", run: cold}, {name: "the same, the other device hangs", run: during(cold)}}
	warmRows := []*row{{name: "warm", run: fromCache}, {name: "the same, a device hangs", run: during(fromCache)}}
	if err := errors.Join(b.measureRows(coldRows), b.measureRows(warmRows)); err != nil {
		return err
	}
	printRows(fmt.Sprintf("Reads while another device hangs for %v with 32 reads waiting for it, medians of %d.", stallTime, b.rounds), coldRows)
	printRows("", warmRows)
	return nil
}

// whileStalled measures while a reader waits for a device that hangs.
func (b *bench) whileStalled(d *seekdisk.Disk, s *daemon.Server, file string, run func() (figure, error)) (f figure, err error) {
	if err = drop(file); err != nil {
		return f, err
	}
	if err = d.Stall(stallTime); err != nil {
		return f, err
	}
	reader := make(chan error, 1)
	go func() {
		_, err := b.measure(s, load{rsize: "128K", conns: 4, depth: 8, bytes: "16M"}, d.Name(), file)
		reader <- err
	}()
	for st := (seekdisk.Stats{}); st.Waiting == 0; time.Sleep(10 * time.Millisecond) {
		if st, err = d.Stats(); err != nil {
			return f, err
		}
		if b.ctx.Err() != nil {
			return f, b.ctx.Err()
		}
	}
	f, err = run()
	return f, errors.Join(err, <-reader)
}
