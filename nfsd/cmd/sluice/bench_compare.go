package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/nfsd/bench"
	"sluice/nfsd/bench/compare"
	"sluice/nfsd/bench/host"
	"sluice/nfsd/bench/report"
	"sluice/nfsd/sendpath"
)

// planFlags are common to what compares.
type planFlags struct {
	load      loadFlags
	rounds    int
	out       string
	sendPaths []string
}

func (f *planFlags) add(cmd *cobra.Command) {
	f.load.add(cmd, time.Second, "how long each run takes")
	fs := cmd.Flags()
	fs.IntVar(&f.rounds, "rounds", 3, "run everything so many times")
	fs.StringVar(&f.out, "out", "", "write a report with pictures, JSON lines and benchstat's format into `DIR`")
	fs.StringSliceVar(&f.sendPaths, "send-paths", sendPaths(), "send paths to measure Sluice with")
}

// sendPaths are those of compare.SendPaths that serve has.
func sendPaths() []string {
	return slices.DeleteFunc(slices.Clone(compare.SendPaths), func(p string) bool {
		_, err := sendpath.ParseMode(p)
		return err != nil
	})
}

func (f *planFlags) plan(workloads []compare.Workload) (*compare.Plan, error) {
	if f.rounds < 1 || f.rounds > 100 {
		return nil, badUsage(fmt.Errorf("--rounds %d: must be from 1 to 100", f.rounds))
	}
	if f.load.time <= 0 || f.load.timeout <= 0 {
		return nil, badUsage(errors.New("--time and --timeout must be more than 0"))
	}
	return &compare.Plan{Workloads: workloads, Rounds: f.rounds, Time: f.load.time, Timeout: f.load.timeout, Threads: f.load.threads,
		Say: func(format string, a ...any) { fmt.Fprintf(os.Stderr, format+"\n", a...) }}, nil
}

// sluicePeers are this program as a server, once for each send path.
func (f *planFlags) sluicePeers() (peers []compare.Peer, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	for _, path := range f.sendPaths {
		if _, err := sendpath.ParseMode(path); err != nil {
			return nil, badUsage(fmt.Errorf("--send-paths: %w", err))
		}
		peers = append(peers, compare.Sluice("sluice-"+path, self, path))
	}
	return peers, nil
}

// run runs a plan, with a file of size bytes if that is not 0 and the plan has none,
// and prints what came of it.
func (f *planFlags) run(cmd *cobra.Command, p *compare.Plan, size uint64) error {
	ctx, stop := benchContext(cmd)
	defer stop()
	if p.File == "" && size > 0 {
		name, remove, err := compare.MakeFile(ctx, int64(size))
		if err != nil {
			return benchError(err)
		}
		defer remove()
		p.File = name
	}
	machine, began := host.Describe(), time.Now()
	out, err := compare.Run(ctx, *p)
	if err != nil {
		return benchError(err)
	}
	report.Summary(cmd.OutOrStdout(), &out)
	if f.out != "" && len(out.Results) > 0 {
		if err := report.New(p, out, machine, began).Write(f.out); err != nil {
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "report: %s\n", filepath.Join(f.out, "report.md"))
	}
	if out.Partial || len(out.Failures) > 0 {
		return exitStatus(exitFailed)
	}
	return nil
}

func compareCommand() *cobra.Command {
	var f planFlags
	var peers []string
	var size string
	var ganesha bool
	cmd := &cobra.Command{
		Use:   "compare [FILE]",
		Short: "Measure Sluice and other servers in turn",
		Long: `Start Sluice with each send path, NFS-Ganesha if it is installed, and the peers
named; let each serve FILE's directory on loopback, and measure all of them with the
same client in alternating order. Without FILE a file of random bytes is made for the
time. It is better if nothing else runs on the machine.

--peer NAME=URL is a server that runs already and has FILE at that URL.
--peer NAME=COMMAND is a server that COMMAND FILE starts: its first line of output is
FILE's URL, and it serves until SIGTERM.

As root, and if no peer is a URL, it all runs in network and mount namespaces of its
own, so that it neither meets nor leaves anything.

The exit status is 1 if a peer made an error. One that is missing is only said to be.`,
		Args: args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, a []string) error {
			p, err := f.plan(compare.Workloads())
			if err != nil {
				return err
			}
			n, err := bench.ParseSize(size)
			if err != nil {
				return badUsage(fmt.Errorf("--size: %w", err))
			}
			if err := serveFile(p, a); err != nil {
				return err
			}
			named, isolate, err := parsePeers(peers)
			if err != nil {
				return err
			}
			if p.Peers, err = f.sluicePeers(); err != nil {
				return err
			}
			if ganesha {
				p.Peers = append(p.Peers, compare.Ganesha())
			}
			p.Peers = append(p.Peers, named...)
			if isolate && os.Geteuid() == 0 {
				if status, done, err := compare.Isolate(); err != nil || done {
					return isolated(status, err)
				}
			}
			return f.run(cmd, p, n)
		},
	}
	f.add(cmd)
	cmd.Flags().StringArrayVar(&peers, "peer", nil, "another server, `NAME=URL` or NAME=COMMAND")
	cmd.Flags().StringVar(&size, "size", "1G", "`SIZE` of the file that is made")
	cmd.Flags().BoolVar(&ganesha, "ganesha", true, "measure NFS-Ganesha too")
	return cmd
}

func isolated(status int, err error) error {
	if err == nil && status != exitOK {
		return exitStatus(status)
	}
	return err
}

// serveFile takes the file from the arguments, if there is one.
func serveFile(p *compare.Plan, a []string) error {
	if len(a) == 0 {
		return nil
	}
	name, err := filepath.Abs(a[0])
	if err != nil {
		return err
	}
	st, err := os.Stat(name)
	if err == nil && (!st.Mode().IsRegular() || st.Size() == 0) {
		err = fmt.Errorf("%s: must be a file that is not empty", name)
	}
	p.File = name
	return badUsage(err)
}

// parsePeers reads --peer; isolate says that all of them are started here.
func parsePeers(args []string) (peers []compare.Peer, isolate bool, err error) {
	isolate = true
	for _, arg := range args {
		name, what, ok := strings.Cut(arg, "=")
		if !ok || name == "" || strings.TrimSpace(what) == "" {
			return nil, false, badUsage(fmt.Errorf("--peer %q: must be NAME=URL or NAME=COMMAND", arg))
		}
		if !strings.HasPrefix(what, "nfs://") {
			peers = append(peers, compare.Command(name, strings.Fields(what)...))
			continue
		}
		isolate = false
		p, err := compare.At(name, what)
		if err != nil {
			return nil, false, badUsage(err)
		}
		peers = append(peers, p)
	}
	return peers, isolate, nil
}
