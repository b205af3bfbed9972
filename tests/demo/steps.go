package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/tests/guest"
)

const (
	nfsPort     = 2049
	portmapPort = 111
	readyLimit  = 10 * time.Second
	readLimit   = 20 * time.Second // nfs-cat tries forever when the file ends early

	// guestMiB is much less than the file, so that every reading of it in
	// the guest comes over the network.
	guestMiB = 384
)

// demo is one run.
type demo struct {
	server string // absolute path of the program
	tree   *tree
	guest  *guest.Guest
	work   string // temporary: exports file, state
	proc   *guest.Proc

	started  time.Duration // the server's CPU time when the current reading began
	figures  []figure
	options  string
	failures []error
}

func newDemo(server string, t *tree) (*demo, error) {
	g, err := guest.New(guest.Options{MemMiB: guestMiB})
	if err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp("", "sluice-demo-run-")
	if err != nil {
		g.Close()
		return nil, err
	}
	return &demo{server: server, tree: t, guest: g, work: work}, nil
}

func (d *demo) close() {
	if d.proc != nil {
		d.proc.Kill()
	}
	d.guest.Close()
	os.RemoveAll(d.work)
}

func (d *demo) fail(format string, args ...any) {
	d.failures = append(d.failures, fmt.Errorf(format, args...))
}

// serve starts the server in the namespace. It listens on 2049 and, so that
// the client need not be told any port, on the portmapper's 111.
func (d *demo) serve(context.Context) error {
	heading("The server")
	exports := filepath.Join(d.work, "exports")
	line := quoteExport(d.tree.dir) + " *(ro,insecure,no_root_squash)"
	if err := os.WriteFile(exports, []byte(line+"\n"), 0o644); err != nil {
		return err
	}
	fmt.Printf("  %s: %s\n", exports, line)
	args := []string{"serve", "--exports", exports, "--state-dir", filepath.Join(d.work, "state")}
	for _, port := range []int{nfsPort, portmapPort} {
		args = append(args, "--listen", fmt.Sprintf("0.0.0.0:%d", port))
	}
	fmt.Printf("server# sluice %s\n", strings.Join(args, " "))
	p, err := d.guest.Start(&guest.Log{Tee: prefixed("  ")}, d.server, args...)
	if err != nil {
		return err
	}
	d.proc = p
	return p.WaitFor("ready", readyLimit)
}

// quoteExport writes a path so that exports(5) reads it back.
func quoteExport(path string) string {
	var b strings.Builder
	for _, c := range []byte(path) {
		if c <= ' ' || c == '"' || c == '#' || c == '\\' || c == '(' {
			fmt.Fprintf(&b, `\%03o`, c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// bootClient runs the Linux client's side of the demo.
func (d *demo) bootClient(ctx context.Context) error {
	heading("A Linux kernel as the client (User Mode Linux)")
	left, err := d.tree.dropCache()
	if err != nil {
		return err
	}
	fmt.Printf("  host page cache before the cold read: %s of the file\n", left)
	screen := &lineWriter{f: d.clientLine}
	res, err := d.guest.Run(ctx, d.clientScript(), screen)
	if err != nil {
		return err
	}
	if res.Code != 0 {
		d.fail("the client's script ended with status %d", res.Code)
	}
	d.checkClient(res.Output)
	return nil
}

// clientScript types what a user would. Lines that start with @ are for
// clientLine.
func (d *demo) clientScript() string {
	return fmt.Sprintf(`set -e
dir=%s file=%s
run() { echo "client# $*"; "$@"; }
mount_it() { run mount -t nfs -o nolock "%s:$dir" /mnt/nfs; }
read_it() {
	echo "@begin"
	run dd if="/mnt/nfs/$file" of=/dev/null bs=1M
	echo "@end $1"
}
mkdir /mnt/nfs
# The host hands out the guest's memory at first touch, which takes longer than
# the network does; have that done before anything is timed.
mount -t tmpfs -o size=90%% tmpfs /mnt/nfs
dd if=/dev/zero of=/mnt/nfs/fill bs=1M count=%d 2>/dev/null
umount /mnt/nfs
mount_it
echo "@options $(grep ' /mnt/nfs nfs' /proc/mounts | cut -d' ' -f4)"
run ls -lA /mnt/nfs | head -n 20
read_it "Linux client, cold server"
run umount /mnt/nfs
mount_it
read_it "Linux client, warm server"
run sha256sum "/mnt/nfs/$file"
run touch /mnt/nfs/new && echo "@written" || true
run umount /mnt/nfs
`, shellQuote(d.tree.dir), shellQuote(d.tree.file), guest.ServerIP, guestMiB-80)
}

func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// clientLine prints a line of the client's and notes the server's CPU time at
// the ends of each reading.
func (d *demo) clientLine(line string) {
	key, rest, _ := strings.Cut(line, " ")
	switch key {
	case "@begin":
		d.started = d.cpu()
	case "@end":
		d.figures = append(d.figures, figure{reader: rest, cpu: d.cpu() - d.started})
	case "@options":
		d.options = rest
		fmt.Println("  /proc/mounts: " + rest)
	case "@written":
	case "client#":
		fmt.Println(line)
	default:
		fmt.Println("  " + line)
	}
}

func (d *demo) cpu() time.Duration {
	t, err := d.proc.CPU()
	if err != nil {
		d.fail("the server's CPU time: %v", err)
	}
	return t
}

var ddLine = regexp.MustCompile(`(?m)^(\d+) bytes .* copied, ([0-9.e-]+) s`)

// checkClient judges what the client printed and completes the figures with
// what dd said.
func (d *demo) checkClient(out string) {
	copies := ddLine.FindAllStringSubmatch(out, -1)
	if len(copies) != 2 || len(d.figures) != 2 {
		d.fail("the client finished %d of 2 readings", min(len(copies), len(d.figures)))
	} else {
		for i, m := range copies {
			f := &d.figures[i]
			f.bytes, _ = strconv.ParseInt(m[1], 10, 64)
			seconds, _ := strconv.ParseFloat(m[2], 64)
			f.elapsed = time.Duration(seconds * float64(time.Second))
			if f.bytes != d.tree.size {
				d.fail("%s: %d bytes of %d", f.reader, f.bytes, d.tree.size)
			}
		}
	}
	if !strings.Contains(out, d.tree.sum) {
		d.fail("the client's SHA-256 is not the original's %s", d.tree.sum)
	} else {
		fmt.Println("  (the original's SHA-256: the same)")
	}
	if !strings.Contains(out, "Read-only file system") || strings.Contains(out, "@written") {
		d.fail("writing did not fail with Read-only file system")
	}
}

// localClient reads the same file without the guest, if libnfs is there.
func (d *demo) localClient(ctx context.Context) error {
	heading("libnfs's nfs-cat, a client in user space, on the host over loopback")
	if _, err := exec.LookPath("nfs-cat"); err != nil {
		fmt.Println("  left out: nfs-cat is not installed")
		return nil
	}
	url := fmt.Sprintf("nfs://127.0.0.1%s?version=3", filepath.Join(d.tree.dir, d.tree.file))
	fmt.Printf("host# nfs-cat '%s' >/dev/null\n", url)
	var runs []figure
	for range 3 {
		f, err := d.nfsCat(ctx, url)
		if err != nil {
			d.fail("nfs-cat: %v", err)
			return nil
		}
		fmt.Printf("  %.2f GB/s\n", f.mbPerSecond()/1000)
		runs = append(runs, f)
	}
	slices.SortFunc(runs, func(a, b figure) int { return cmp.Compare(a.elapsed, b.elapsed) })
	d.figures = append(d.figures, runs[1])
	return nil
}

func (d *demo) nfsCat(ctx context.Context, url string) (figure, error) {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	cmd := d.guest.Command(ctx, "nfs-cat", url)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	f := figure{reader: "nfs-cat on the host, warm server, median of 3", bytes: d.tree.size}
	before, start, received := d.cpu(), time.Now(), d.loopbackBytes()
	err := cmd.Run()
	f.elapsed, f.cpu = time.Since(start), d.cpu()-before
	if err != nil {
		return f, fmt.Errorf("%w: %s", err, stderr.String())
	}
	// Counting in a pipe would slow it down; the device counts for free.
	if got := d.loopbackBytes() - received; got < d.tree.size {
		return f, fmt.Errorf("received %d bytes of %d", got, d.tree.size)
	}
	return f, nil
}

// loopbackBytes returns how many bytes the namespace's lo has received.
func (d *demo) loopbackBytes() int64 {
	out, err := d.guest.Command(context.Background(), "cat", "/proc/net/dev").Output()
	_, after, found := strings.Cut(string(out), "lo:")
	fields := strings.Fields(after)
	if err != nil || !found || len(fields) == 0 {
		d.fail("bytes on the loopback device: %v: %q", err, out)
		return 0
	}
	n, _ := strconv.ParseInt(fields[0], 10, 64)
	return n
}

// stopServer ends the server as an administrator would.
func (d *demo) stopServer(context.Context) error {
	heading("Stopping the server")
	fmt.Printf("server# kill -TERM %d\n", d.proc.PID())
	err := d.proc.Stop(10 * time.Second)
	d.proc = nil
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		d.fail("the server ended with %v", err)
	case err != nil:
		d.fail("stopping the server: %v", err)
	default:
		fmt.Println("  exit status 0")
	}
	return nil
}
