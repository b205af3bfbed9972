package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"sluice/nfsd/bench"
	"sluice/nfsd/bench/compare"
)

func sweepCommand() *cobra.Command {
	var f planFlags
	var sizes []string
	var conns []int
	var depth int
	var cold bool
	cmd := &cobra.Command{
		Use:   "sweep FILE|URL...",
		Short: "Read with every size over every number of connections",
		Long: `Read with every size over every number of connections: from the servers at the
URLs, or from Sluice, which is started to serve FILE's directory once with each send
path.
` + urlHelp,
		Args: args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, a []string) error {
			grid, err := parseGrid(sizes, conns)
			if err != nil {
				return badUsage(err)
			}
			p, err := f.plan(compare.Grid(grid, conns, depth, cold))
			if err != nil {
				return err
			}
			if p.Peers, err = sweepPeers(&f, p, a); err != nil {
				return err
			}
			return f.run(cmd, p, 0)
		},
	}
	f.add(cmd)
	fs := cmd.Flags()
	fs.StringSliceVar(&sizes, "sizes", []string{"4K", "64K", "1M"}, "sizes of a READ")
	fs.IntSliceVar(&conns, "conns", []int{1, 4, 16}, "numbers of connections")
	fs.IntVar(&depth, "depth", 8, "calls outstanding on each connection")
	fs.BoolVar(&cold, "cold", false, "drop the file from the servers' cache before each run")
	return cmd
}

func parseGrid(sizes []string, conns []int) (grid []int, err error) {
	for _, s := range sizes {
		n, err := bench.ParseSize(s)
		if err == nil && n > bench.MaxRSize {
			err = fmt.Errorf("size %q: must be from 1 to %s", s, bench.FormatSize(bench.MaxRSize))
		}
		if err != nil {
			return nil, fmt.Errorf("--sizes: %w", err)
		}
		grid = append(grid, int(n))
	}
	for _, n := range conns {
		if n < 1 || n > bench.MaxConns {
			return nil, fmt.Errorf("--conns %d: must be from 1 to %d", n, bench.MaxConns)
		}
	}
	if len(grid) == 0 || len(conns) == 0 {
		return nil, errors.New("--sizes and --conns must not be empty")
	}
	return grid, nil
}

// sweepPeers are the servers at the URLs, or Sluice with each send path.
func sweepPeers(f *planFlags, p *compare.Plan, args []string) (peers []compare.Peer, err error) {
	for _, a := range args {
		if !strings.HasPrefix(a, "nfs://") {
			if len(args) > 1 {
				return nil, badUsage(fmt.Errorf("%q: either one file or URLs can be given", a))
			}
			if err := serveFile(p, args); err != nil {
				return nil, err
			}
			return f.sluicePeers()
		}
		peer, err := compare.At(a, a)
		if err != nil {
			return nil, badUsage(err)
		}
		peers = append(peers, peer)
	}
	return peers, nil
}
