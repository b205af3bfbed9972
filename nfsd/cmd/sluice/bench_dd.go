package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"sluice/nfsd/bench"
)

// ddFlags is the command line of bench dd, as given.
type ddFlags struct {
	load    loadFlags
	out     outputFlags
	rsize   string
	bytes   string
	loops   int
	streams int
	shuffle int
	cold    bool
	verify  []string
}

func ddCommand() *cobra.Command {
	var f ddFlags
	cmd := &cobra.Command{
		Use:   "dd URL...",
		Short: "Read files in sequence, as dd does",
		Long: `Read files from an NFSv3 server in sequence, as dd does, and tell the throughput,
the latencies, and, where the server runs on this machine, its CPU and what its disk
did. Data is thrown away inside the kernel. Neither root nor a kernel client is
needed. Several files are read side by side.
` + urlHelp,
		Args: args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, urls []string) error { return f.run(cmd, urls) },
	}
	f.load.add(cmd, 0, "read in loops for so long, not to the end of the file")
	f.load.addConns(cmd)
	f.out.add(cmd)
	fs := cmd.Flags()
	fs.StringVar(&f.rsize, "rsize", "", "`SIZE` of a READ (default 1M, or what the server reads at most)")
	fs.StringVar(&f.bytes, "bytes", "", "read `SIZE` bytes of each file (default all)")
	fs.IntVar(&f.loops, "loops", 1, "read it all so many times")
	fs.IntVar(&f.streams, "streams", 1, "read each file in `N` parts side by side, as so many readers would")
	fs.IntVar(&f.shuffle, "shuffle", 0, "reorder the READs inside windows of `N`, as busy clients do")
	fs.BoolVar(&f.cold, "cold", false, "drop the files from the server's cache before; fails where that cannot be done")
	fs.StringArrayVar(&f.verify, "verify", nil, "compare with a local `FILE` that holds the same, once for each URL")
	cmd.MarkFlagsMutuallyExclusive("loops", "time")
	return cmd
}

func (f *ddFlags) options(cmd *cobra.Command, urls []string) (bench.Options, error) {
	o := f.load.options()
	var err error
	if o.Targets, err = parseTargets(urls); err != nil {
		return o, err
	}
	o.Streams, o.Shuffle, o.Cold, o.Verify, o.Loops = f.streams, f.shuffle, f.cold, f.verify, f.loops
	if f.load.time > 0 {
		o.Loops = 0
	}
	if f.rsize != "" {
		n, err := bench.ParseSize(f.rsize)
		if err != nil || n > bench.MaxRSize {
			return o, badUsage(fmt.Errorf("--rsize %q: must be from 1 to %s", f.rsize, bench.FormatSize(bench.MaxRSize)))
		}
		o.RSize = int(n)
	}
	if f.bytes != "" {
		if o.Bytes, err = bench.ParseSize(f.bytes); err != nil {
			return o, badUsage(fmt.Errorf("--bytes: %w", err))
		}
	}
	if f.loops < 1 || f.streams < 1 || f.load.time < 0 || cmd.Flags().Changed("time") && f.load.time < time.Millisecond {
		return o, badUsage(fmt.Errorf("--loops, --streams and --time must be more than 0"))
	}
	return o, nil
}

func (f *ddFlags) run(cmd *cobra.Command, urls []string) error {
	o, err := f.options(cmd, urls)
	if err != nil {
		return err
	}
	ctx, stop := benchContext(cmd)
	defer stop()
	update, finish := progress("reading", true)
	o.Progress = update
	r, err := bench.Read(ctx, o)
	finish()
	if err != nil {
		return benchError(err)
	}
	if err := f.out.print(cmd.OutOrStdout(), r); err != nil {
		return err
	}
	if r.Partial {
		return exitStatus(exitFailed)
	}
	return nil
}
