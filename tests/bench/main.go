package main

import (
	"context"
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"sluice/nfsd/bench"
	"sluice/nfsd/bench/compare"
	"sluice/nfsd/bench/host"
	"sluice/nfsd/bench/report"
	"sluice/nfsd/sendpath"
)

// options are the command line.
type options struct {
	server, out string
	knfsd       string
	guest       bool
	size, note  string
	rounds      int
	time        time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.server, "server", "bin/sluice", "Sluice, the `program`")
	flag.StringVar(&o.out, "out", "bench-report", "`directory` for the report")
	flag.StringVar(&o.knfsd, "knfsd", "", "measure the kernel's own server too, in an emulated machine made from what \"knfsd.sh fetch\" left in `DIR`")
	flag.BoolVar(&o.guest, "guest", true, "measure with the Linux kernel's client too")
	flag.StringVar(&o.size, "size", "1G", "size of the file")
	flag.StringVar(&o.note, "note", "", "a remark for the report")
	flag.IntVar(&o.rounds, "rounds", 3, "run everything so many times")
	flag.DurationVar(&o.time, "time", time.Second, "how long each run takes")
	flag.Parse()
	status, err := run(&o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		status = 1
	}
	os.Exit(status)
}

func run(o *options) (status int, err error) {
	size, err := bench.ParseSize(o.size)
	if err != nil {
		return 2, err
	}
	if o.rounds < 1 || o.time <= 0 {
		return 2, errors.New("-rounds and -time must be more than 0")
	}
	if o.server, err = filepath.Abs(o.server); err != nil {
		return 0, err
	}
	if os.Geteuid() == 0 {
		if status, done, err := compare.Isolate(); err != nil || done {
			return status, err
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	file, remove, err := compare.MakeFile(ctx, int64(size))
	if err != nil {
		return 0, err
	}
	defer remove()
	return o.measure(ctx, file)
}

func (o *options) measure(ctx context.Context, file string) (status int, err error) {
	plan := compare.Plan{Peers: o.peers(), Workloads: compare.Workloads(), File: file, Rounds: o.rounds, Time: o.time,
		Timeout: 15 * time.Second, Say: say}
	machine, began := host.Describe(), time.Now()
	out, err := compare.Run(ctx, plan)
	if err != nil {
		return 0, err
	}
	if o.guest && ctx.Err() == nil {
		o.kernelClient(ctx, file, &out)
	}
	if o.knfsd != "" && ctx.Err() == nil {
		o.emulated(ctx, &out)
	}
	out.Partial = out.Partial || ctx.Err() != nil
	out.Versions = append(out.Versions, goNFSVersion()...)
	report.Summary(os.Stdout, &out)
	r := report.New(&plan, out, machine, began)
	if o.note != "" {
		r.Notes = []string{o.note}
	}
	if err := r.Write(o.out); err != nil {
		return 0, err
	}
	fmt.Println("report:", filepath.Join(o.out, "report.md"))
	if out.Partial || len(out.Failures) > 0 {
		return 1, nil
	}
	return 0, nil
}

// beside is a program in the directory that this one is in.
func beside(name string) string {
	self, err := os.Executable()
	if err != nil {
		return name
	}
	return filepath.Join(filepath.Dir(self), name)
}

// peers are all that serve over loopback.
func (o *options) peers() []compare.Peer {
	limit := compare.Command("spliceloop", beside("spliceloop"))
	limit.Skip = func(s bench.Settings) bool { return s.Op != bench.OpRead } // it answers them with constants
	null := compare.Command(report.NullPeer, beside("nullserver"))
	null.Skip = func(s bench.Settings) bool { return s.Cold } // it reads no file
	peers := []compare.Peer{limit}
	for _, path := range compare.SendPaths {
		if _, err := sendpath.ParseMode(path); err == nil {
			peers = append(peers, compare.Sluice("sluice-"+path, o.server, path))
		}
	}
	return append(peers, compare.Ganesha(), compare.Command(goNFSName, beside("gonfs")), null)
}

const goNFSName = "go-nfs"

// goNFSVersion is what the program was built with.
func goNFSVersion() []compare.Version {
	info, err := buildinfo.ReadFile(beside("gonfs"))
	if err != nil {
		return nil
	}
	for _, m := range info.Deps {
		if m.Path == "github.com/willscott/go-nfs" {
			return []compare.Version{{Peer: goNFSName, Version: m.Path + " " + m.Version}}
		}
	}
	return nil
}

func say(format string, a ...any) { fmt.Fprintf(os.Stderr, format+"\n", a...) }

// missing notes a peer that cannot be had, and why.
func missing(out *compare.Outcome, peer string, err error) {
	say("missing: %s: %v", peer, err)
	out.Missing = append(out.Missing, compare.Missing{Peer: peer, Reason: err.Error()})
}
