package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"sluice/nfsd/bench"
	"sluice/nfsd/bench/compare"
	"sluice/nfsd/bench/host"
	"sluice/tests/guest"
)

const (
	kernelWhere = "dd through the Linux kernel's client, in a User Mode Linux guest"
	kernelLimit = 5 * time.Minute
	startLimit  = 20 * time.Second
	// guestMiB is less than the file, so that every reading of it comes over the
	// network.
	guestMiB     = 384
	sluicePort   = 2049
	ganeshaPort  = 22049
	ganeshaMount = 22050
	nconnect     = 4
)

// served is a server that the guest mounts.
type served struct {
	name        string
	port, mount int
	proc        *guest.Proc
}

// kernelClient has dd read the file through the kernel's client, from Sluice and
// from NFS-Ganesha in turn.
func (o *options) kernelClient(ctx context.Context, file string, out *compare.Outcome) {
	say("%s", kernelWhere)
	ctx, cancel := context.WithTimeout(ctx, kernelLimit)
	defer cancel()
	dir, err := os.MkdirTemp("", "sluice-bench-guest-")
	if err != nil {
		missing(out, kernelWhere, err)
		return
	}
	defer os.RemoveAll(dir)
	g, err := guest.New(guest.Options{MemMiB: guestMiB})
	if err != nil {
		missing(out, kernelWhere, err)
		return
	}
	defer g.Close()
	var servers []served
	for _, start := range []func(*guest.Guest, string, string) (served, error){o.guestSluice, guestGanesha} {
		s, err := start(g, file, dir)
		if s.proc != nil {
			defer s.proc.Kill()
		}
		if err != nil {
			missing(out, s.name+", "+kernelWhere, err)
			continue
		}
		servers = append(servers, s)
	}
	r := reader{servers: servers}
	res, err := g.Run(ctx, o.script(file, servers), &r)
	if err == nil && res.Code != 0 {
		err = fmt.Errorf("the guest's script failed: %s", res.Output)
	}
	if err == nil && len(r.results) != o.rounds*len(servers) {
		err = fmt.Errorf("%d of %d readings", len(r.results), o.rounds*len(servers))
	}
	if err != nil {
		missing(out, kernelWhere, err)
		return
	}
	out.Results = append(out.Results, r.results...)
}

func (o *options) guestSluice(g *guest.Guest, file, dir string) (served, error) {
	s := served{name: "sluice-auto", port: sluicePort, mount: sluicePort}
	exports := filepath.Join(dir, "exports")
	line := compare.QuoteExport(filepath.Dir(file)) + " *(ro,insecure,no_root_squash)\n"
	if err := os.WriteFile(exports, []byte(line), 0o644); err != nil {
		return s, err
	}
	var err error
	s.proc, err = g.Start(nil, o.server, "serve", "--exports", exports, "--state-dir", filepath.Join(dir, "state"), "--rpcbind", "off",
		"--listen", fmt.Sprintf("0.0.0.0:%d", s.port))
	if err != nil {
		return s, err
	}
	return s, await(g, &s)
}

func guestGanesha(g *guest.Guest, file, dir string) (served, error) {
	s := served{name: compare.GaneshaName, port: ganeshaPort, mount: ganeshaMount}
	for _, program := range []string{"ganesha.nfsd", "rpcbind"} {
		if _, err := exec.LookPath(program); err != nil {
			return s, err
		}
	}
	config := filepath.Join(dir, "ganesha.conf")
	if err := os.WriteFile(config, compare.GaneshaConfig(filepath.Dir(file), ganeshaPort, ganeshaMount), 0o644); err != nil {
		return s, err
	}
	if err := g.Sh("mkdir -p /run/ganesha && rpcbind"); err != nil {
		return s, err
	}
	var err error
	s.proc, err = g.Start(nil, "ganesha.nfsd", "-F", "-f", config, "-L", filepath.Join(dir, "ganesha.log"), "-p", filepath.Join(dir, "ganesha.pid"))
	if err != nil {
		return s, err
	}
	return s, await(g, &s)
}

// await returns when the server listens for MOUNT.
func await(g *guest.Guest, s *served) error {
	for deadline := time.Now().Add(startLimit); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if c, err := g.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", s.mount)); err == nil {
			c.Close()
			return nil
		}
		select {
		case <-s.proc.Done():
			return errors.New("it ended: " + s.proc.Log.String())
		default:
		}
	}
	return errors.New("it does not listen: " + s.proc.Log.String())
}

// script reads the file from each server in turn. Lines with @ are for reader.
func (o *options) script(file string, servers []served) string {
	var b strings.Builder
	// The host hands out the guest's memory at first touch, which takes longer than
	// the network does; have that done before anything is timed.
	fmt.Fprintf(&b, `set -e
mount -t tmpfs -o size=90%% tmpfs /mnt
dd if=/dev/zero of=/mnt/fill bs=1M count=%d 2>/dev/null
rm /mnt/fill
mkdir /mnt/nfs
`, guestMiB-80)
	for round := range o.rounds {
		for i := range servers {
			n := i
			if round%2 == 1 {
				n = len(servers) - 1 - i
			}
			s := servers[n]
			fmt.Fprintf(&b, `mount -t nfs -o vers=3,tcp,nolock,rsize=1048576,nconnect=%d,port=%d,mountport=%d %s:%s /mnt/nfs
echo "@begin %d"
dd if=/mnt/nfs/%s of=/dev/null bs=1M
echo "@end"
umount /mnt/nfs
`, nconnect, s.port, s.mount, guest.ServerIP, filepath.Dir(file), n, filepath.Base(file))
		}
	}
	return b.String()
}

var ddLine = regexp.MustCompile(`^(\d+) bytes .* copied, ([0-9.e-]+) s`)

// reader makes results of what the guest prints, and looks at the servers' CPU as
// it goes.
type reader struct {
	servers []served
	rest    string
	now     int // of servers
	started time.Time
	before  host.CPU
	bytes   uint64
	seconds float64
	results []bench.Result
}

func (r *reader) Write(p []byte) (int, error) {
	r.rest += string(p)
	for {
		line, rest, ok := strings.Cut(r.rest, "\n")
		if !ok {
			return len(p), nil
		}
		r.rest = rest
		r.line(strings.TrimSpace(line))
	}
}

func (r *reader) line(line string) {
	if n, ok := strings.CutPrefix(line, "@begin "); ok {
		i, err := strconv.Atoi(n)
		if err == nil && i < len(r.servers) {
			r.now, r.started, r.before, r.bytes = i, time.Now(), r.server().CPU(), 0
		}
		return
	}
	if m := ddLine.FindStringSubmatch(line); m != nil {
		r.bytes, _ = strconv.ParseUint(m[1], 10, 64)
		r.seconds, _ = strconv.ParseFloat(m[2], 64)
	}
	if line == "@end" && r.bytes > 0 && r.seconds > 0 {
		r.results = append(r.results, r.result())
	}
}

func (r *reader) server() *host.Server {
	s := r.servers[r.now]
	return &host.Server{Name: s.name, PIDs: []int{s.proc.PID()}}
}

func (r *reader) result() bench.Result {
	s := r.server()
	use := bench.ServerUse{Name: s.Name, PIDs: s.PIDs, CPU: make(map[string]float64)}
	for role, d := range s.CPU().Since(r.before) {
		use.CPU[role] = d.Seconds()
	}
	const bs = 1 << 20
	return bench.Result{Settings: bench.Settings{Op: bench.OpRead, RSize: bs, Conns: nconnect, Where: kernelWhere},
		Peer: s.Name, Round: len(r.results)/len(r.servers) + 1, Started: r.started, Seconds: r.seconds,
		Bytes: r.bytes, Calls: (r.bytes + bs - 1) / bs, Server: &use}
}
