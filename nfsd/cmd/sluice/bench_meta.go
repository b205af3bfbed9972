package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/nfsd/bench"
)

func metaCommand() *cobra.Command {
	var load loadFlags
	var out outputFlags
	var ops []string
	var calls uint64
	cmd := &cobra.Command{
		Use:   "meta URL",
		Short: "Make small calls: NULL, GETATTR, LOOKUP, ACCESS, READDIRPLUS",
		Long: `Make small calls to an NFSv3 server, one kind after the other, and tell how many
a second it answers. URL names a file or a directory. LOOKUP looks it up in its
directory, READDIRPLUS lists it or, if it is a file, the directory that it is in.
` + urlHelp,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, urls []string) error {
			o := load.options()
			var err error
			if o.Targets, err = parseTargets(urls); err != nil {
				return err
			}
			if o.Calls = calls; calls > 0 && !cmd.Flags().Changed("time") {
				o.Time = 0
			}
			if o.Calls == 0 && o.Time <= 0 {
				return badUsage(fmt.Errorf("--time must be more than 0"))
			}
			return runMeta(cmd, o, ops, &out)
		},
	}
	load.add(cmd, time.Second, "make each kind of call for so long")
	load.addConns(cmd)
	out.add(cmd)
	cmd.Flags().StringSliceVar(&ops, "op", bench.MetaOps, "kinds of calls")
	cmd.Flags().Uint64Var(&calls, "calls", 0, "make `N` calls of each kind, not for a time")
	return cmd
}

func runMeta(cmd *cobra.Command, o bench.Options, ops []string, out *outputFlags) error {
	ctx, stop := benchContext(cmd)
	defer stop()
	var results []bench.Result
	for _, op := range ops {
		o.Op = op
		update, finish := progress(strings.ToUpper(op), false)
		o.Progress = update
		r, err := bench.Meta(ctx, o)
		finish()
		if err != nil {
			return benchError(err)
		}
		results = append(results, r)
		if r.Partial {
			break
		}
	}
	if err := out.print(cmd.OutOrStdout(), results...); err != nil {
		return err
	}
	if len(results) > 0 && results[len(results)-1].Partial {
		return exitStatus(exitFailed)
	}
	return nil
}
