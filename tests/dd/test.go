package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"sluice/nfsd/bench/host"
	"sluice/tests/disk/daemon"
	"sluice/tests/guest"
	"sluice/tests/iostat"
	"sluice/tests/seekdisk"
)

// setup is how the server and the disk are set for two rows, cold and warm.
type setup struct {
	scheduler string
	mode      mode
	threads   int
}

type mode struct {
	name string
	args []string
}

// The last is as near as this server comes to those of 2008: each thread reads by
// itself, and reading ahead is left to the kernel.
var modes = []mode{
	{"shared", []string{"--io-context", "shared"}},
	{"private", []string{"--io-context", "private"}},
	{"private, no read-ahead", []string{"--io-context", "private", "--readahead", "off"}},
}

func setups() (all []setup) {
	for _, scheduler := range []string{"mq-deadline", "bfq", "none"} {
		for _, m := range modes {
			for _, threads := range []int{1, 8, 32} {
				all = append(all, setup{scheduler, m, threads})
			}
		}
	}
	return all
}

// test is one run. The guest has a script for all rows, and stops before each
// setup until the host has put it in place: the line "@setup N" asks for it, and
// the file N in the directory work answers. The lines "@begin" and "@end" are
// around each dd.
type test struct {
	server string
	work   string
	disk   *seekdisk.Disk
	guest  *guest.Guest

	setups []setup
	now    setup
	daemon *daemon.Server
	before iostat.Counters
	rest   []byte // of a line
	dd     string // what dd said last
	err    error
}

func (t *test) run(ctx context.Context) error {
	t.setups = setups()
	if err := t.localRows(); err != nil {
		return err
	}
	res, err := t.guest.Run(ctx, t.script(), t)
	if err == nil && res.Code != 0 {
		err = fmt.Errorf("the guest's script ended with status %d:\n%s", res.Code, res.Output)
	}
	return errors.Join(t.err, err)
}

func (t *test) close() {
	if t.daemon != nil {
		t.daemon.Kill()
	}
}

// script is what the guest does.
func (t *test) script() string {
	return fmt.Sprintf(`
mkdir /mnt/nfs
# Have the host hand out the guest's memory before anything is timed.
mount -t tmpfs -o size=90%% tmpfs /mnt/nfs
dd if=/dev/zero of=/mnt/nfs/fill bs=1M count=%[5]d 2>/dev/null
umount /mnt/nfs
read_it() {
	mount -t nfs -o vers=3,tcp,nolock,rsize=131072,nconnect=8,port=2049,mountport=2049 %[3]s:%[2]s /mnt/nfs || exit 1
	echo "@begin"
	dd if=/mnt/nfs/%[4]s of=/dev/null bs=1M || exit 1
	echo "@end $1"
	umount /mnt/nfs
}
for n in $(seq 0 %[6]d); do
	echo "@setup $n"
	until [ -e %[1]s/$n ]; do sleep 0.05; done
	[ "$(cat %[1]s/$n)" = go ] || exit 1
	read_it cold
	read_it warm
done
`, t.work, t.disk.Dir(), guest.ServerIP, fileName, guestMiB-80, len(t.setups)-1)
}

// Write takes what the guest prints.
func (t *test) Write(p []byte) (int, error) {
	t.rest = append(t.rest, p...)
	for {
		line, rest, ok := strings.Cut(string(t.rest), "\n")
		if !ok {
			return len(p), nil
		}
		t.rest = []byte(rest)
		if err := t.line(strings.TrimSpace(line)); err != nil && t.err == nil {
			t.err = err
		}
	}
}

func (t *test) line(line string) (err error) {
	key, arg, _ := strings.Cut(line, " ")
	switch key {
	case "@setup":
		n, err := strconv.Atoi(arg)
		if err != nil || n >= len(t.setups) {
			return fmt.Errorf("the guest asks for setup %q", arg)
		}
		return t.answer(n)
	case "@begin":
		if t.before, err = iostat.Read(t.disk.Name()); err == nil {
			err = t.disk.Reset()
		}
	case "@end":
		return t.row(arg)
	default:
		if strings.Contains(line, " copied, ") {
			t.dd = line
		}
	}
	return err
}

// answer puts a setup in place and lets the guest go on, or end.
func (t *test) answer(n int) error {
	answer := "go"
	err := t.setUp(t.setups[n])
	if err != nil {
		answer = "end"
	}
	tmp := filepath.Join(t.work, "answer")
	return errors.Join(err, os.WriteFile(tmp, []byte(answer), 0o644), os.Rename(tmp, filepath.Join(t.work, strconv.Itoa(n))))
}

func (t *test) setUp(s setup) error {
	if t.daemon != nil {
		if err := t.daemon.End(); err != nil {
			return err
		}
		t.daemon = nil
	}
	if err := t.disk.SetScheduler(s.scheduler); err != nil {
		return err
	}
	if err := t.drop(); err != nil {
		return err
	}
	var err error
	t.now = s
	t.daemon, err = daemon.Start(daemon.Options{
		Bin: t.server, Work: t.work, In: t.guest.Namespace, Listen: "0.0.0.0:2049",
		Exports: t.disk.Dir() + " *(ro,insecure,no_root_squash,no_subtree_check)\n",
		Args:    append(s.mode.args, "--threads", strconv.Itoa(s.threads)),
	})
	return err
}

// drop removes the file from the page cache. Sockets that have just been closed
// may hold some of it a little longer.
func (t *test) drop() (err error) {
	for range 100 {
		if err = host.DropFile(filepath.Join(t.disk.Dir(), fileName)); err == nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return err
}

var ddLine = regexp.MustCompile(`^(\d+) bytes .* copied, ([0-9.e-]+) s`)

// ddRate is in bytes per second.
func ddRate(line string) (float64, error) {
	m := ddLine.FindStringSubmatch(line)
	if m == nil {
		return 0, fmt.Errorf("dd said %q", line)
	}
	seconds, err := strconv.ParseFloat(m[2], 64)
	if n, err2 := strconv.Atoi(m[1]); err != nil || err2 != nil || n != fileSize {
		return 0, fmt.Errorf("dd said %q: want %d bytes", line, fileSize)
	}
	return fileSize / max(seconds, 1e-6), nil
}
