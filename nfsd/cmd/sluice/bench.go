package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"sluice/nfsd/bench"
	"sluice/nfsd/bench/client"
	"sluice/nfsd/bench/host"
	"sluice/nfsd/bench/report"
)

func benchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure NFSv3 servers, this one or any other",
		Args:  args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_ = cmd.Help()
			return exitStatus(exitUsage)
		},
	}
	cmd.AddCommand(ddCommand(), metaCommand(), sweepCommand(), compareCommand())
	return cmd
}

const urlHelp = `
A URL is nfs://HOST[:PORT]/EXPORT/FILE. Without PORT the portmapper at HOST says
where NFS and MOUNT are, or else both are at 2049. ?mountport=PORT names the port
of MOUNT where it is neither at PORT nor known to a portmapper.

There is no figure if anything goes wrong: a READ that fails or comes back short, a
server that closes a connection or stays silent. The exit status is then 1, as after
an interrupt, and 2 if what was asked for makes no sense.`

// loadFlags are common to all that puts a server under load.
type loadFlags struct {
	conns, depth, threads int
	time, timeout         time.Duration
}

func (f *loadFlags) add(cmd *cobra.Command, limit time.Duration, limitHelp string) {
	fs := cmd.Flags()
	fs.IntVar(&f.threads, "threads", 0, "threads of the load generator (default half of the CPUs)")
	fs.DurationVar(&f.time, "time", limit, limitHelp)
	fs.DurationVar(&f.timeout, "timeout", 15*time.Second, "give up if a reply takes so long")
}

func (f *loadFlags) addConns(cmd *cobra.Command) {
	cmd.Flags().IntVar(&f.conns, "conns", 1, "TCP connections")
	cmd.Flags().IntVar(&f.depth, "depth", 8, "calls outstanding on each connection")
}

func (f *loadFlags) options() bench.Options {
	return bench.Options{Settings: bench.Settings{Conns: f.conns, Depth: f.depth}, Threads: f.threads, Time: f.time, Timeout: f.timeout}
}

// outputFlags say how results are printed.
type outputFlags struct{ json, bench bool }

func (f *outputFlags) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON lines, an object for each measurement")
	cmd.Flags().BoolVar(&f.bench, "benchfmt", false, "print in the format of Go's benchmarks, for benchstat")
	cmd.MarkFlagsMutuallyExclusive("json", "benchfmt")
}

func (f *outputFlags) print(w io.Writer, results ...bench.Result) error {
	switch {
	case f.json:
		return report.JSON(w, results)
	case f.bench:
		return report.Bench(w, results, host.Describe().CPU)
	}
	for i := range results {
		if i > 0 {
			fmt.Fprintln(w)
		}
		report.Text(w, &results[i])
	}
	return nil
}

// benchContext ends at the first SIGINT or SIGTERM; the second ends the process.
func benchContext(cmd *cobra.Command) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// benchError gives errors their exit status.
func benchError(err error) error {
	var u bench.UsageError
	switch {
	case errors.Is(err, context.Canceled):
		return errors.New("interrupted before there was anything to tell")
	case errors.As(err, &u):
		return badUsage(err)
	}
	return err
}

func parseTargets(urls []string) (targets []client.Target, err error) {
	for _, u := range urls {
		t, err := client.ParseURL(u)
		if err != nil {
			return nil, badUsage(err)
		}
		targets = append(targets, t)
	}
	return targets, nil
}

// progress draws a bar on a terminal, and nothing elsewhere.
func progress(what string, inBytes bool) (update func(done, total uint64), finish func()) {
	if !term.IsTerminal(int(os.Stderr.Fd())) {
		return nil, func() {}
	}
	var bar *progressbar.ProgressBar
	update = func(done, total uint64) {
		if bar == nil {
			n := int64(total)
			if n == 0 {
				n = -1 // not known
			}
			options := []progressbar.Option{progressbar.OptionSetWriter(os.Stderr), progressbar.OptionSetDescription(what),
				progressbar.OptionShowBytes(inBytes), progressbar.OptionSetItsString("calls"), progressbar.OptionClearOnFinish(),
				progressbar.OptionSetPredictTime(true), progressbar.OptionThrottle(100 * time.Millisecond)}
			if !inBytes {
				options = append(options, progressbar.OptionShowIts())
			}
			bar = progressbar.NewOptions64(n, options...)
			bar.StartWithoutRender()
			return
		}
		_ = bar.Set64(int64(done))
	}
	return update, func() {
		if bar != nil {
			_ = bar.Clear()
		}
	}
}
