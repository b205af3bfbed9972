package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"

	"github.com/spf13/cobra"

	"sluice/export"
)

func exportsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "exports",
		Short: "Check and show exports files",
		Args:  args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_ = cmd.Help()
			return exitStatus(exitUsage)
		},
	}
	var root string
	cmd.PersistentFlags().StringVar(&root, "root", "", "look exported paths up below `DIR`")
	cmd.AddCommand(checkCommand(&root), showCommand(&root), whyCommand(&root))
	return cmd
}

// load reads an exports file and prints what is to be said of it.
func load(file, root string) (*export.Table, export.Diagnostics, error) {
	t, diags, err := export.Load(context.Background(), export.LoadOptions{File: file, Root: root})
	if err != nil {
		return nil, nil, badUsage(err)
	}
	return t, diags, diags.Format(os.Stderr)
}

func checkCommand(root *string) *cobra.Command {
	var strict bool
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Say what is wrong with an exports file, and what was probably meant",
		Args:  args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, a []string) error {
			t, diags, err := load(a[0], *root)
			if err != nil {
				return err
			}
			entries := 0
			for _, x := range t.Exports() {
				entries += len(x.Entries)
			}
			problems := 0
			for _, d := range diags {
				if d.Severity != export.Note {
					problems++
				}
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: %d exports, %d entries, %d problems\n", a[0], len(t.Exports()), entries, problems)
			if diags.HasErrors() || strict && problems > 0 {
				return exitStatus(exitFailed)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&strict, "strict", false, "fail on warnings too")
	return cmd
}

func showCommand(root *string) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "show FILE",
		Short: "Print the effective table of an exports file",
		Args:  args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, a []string) error {
			if err := oneOf("--format", format, "table", "json", "etab"); err != nil {
				return badUsage(err)
			}
			t, diags, err := load(a[0], *root)
			if err != nil {
				return err
			}
			if err := show(cmd, t, format); err != nil {
				return err
			}
			if diags.ExitStatus() != 0 {
				return exitStatus(exitFailed)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&format, "format", "table", "table, json or etab")
	return cmd
}

func show(cmd *cobra.Command, t *export.Table, format string) error {
	w := cmd.OutOrStdout()
	switch format {
	case "json":
		return t.ShowJSON(w)
	case "etab":
		for _, l := range t.EtabLines() {
			if _, err := fmt.Fprintln(w, l); err != nil {
				return err
			}
		}
		return nil
	}
	return t.ShowTable(w)
}

func whyCommand(root *string) *cobra.Command {
	return &cobra.Command{
		Use:   "why FILE CLIENT PATH",
		Short: "Say which entry applies to a client (an IP address) and a path, and why",
		Args:  args(cobra.ExactArgs(3)),
		RunE: func(cmd *cobra.Command, a []string) error {
			addr, err := netip.ParseAddr(a[1])
			if err != nil {
				return badUsage(fmt.Errorf("client %q: must be an IP address", a[1]))
			}
			t, _, err := load(a[0], *root)
			if err != nil {
				return err
			}
			return export.NewMatcher(t, nil).Why(cmd.Context(), a[2], addr).Format(cmd.OutOrStdout())
		},
	}
}
