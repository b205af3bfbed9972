// Command sluice is an NFSv3 read server.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

// Exit statuses.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2 // bad usage or configuration
)

// usageError is an error of the command line or of the configuration.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func badUsage(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err}
}

// exitStatus is an error that has been told already.
type exitStatus int

func (e exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

func main() { os.Exit(run(os.Args[1:])) }

// run executes one command line and returns the exit status.
func run(args []string) int {
	root := &cobra.Command{
		Use:           "sluice",
		Short:         "An NFSv3 read server",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(_ *cobra.Command, a []string) error {
			if len(a) > 0 {
				return badUsage(fmt.Errorf("unknown command %q; see sluice --help", a[0]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			_ = cmd.Help()
			return exitStatus(exitUsage)
		},
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return badUsage(err) })
	root.AddCommand(serveCommand(), exportsCommand(), statusCommand(), benchCommand(), versionCommand())
	root.SetArgs(args)
	err := root.Execute()
	var told exitStatus
	var usage usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &told):
		return int(told)
	}
	fmt.Fprintln(os.Stderr, "sluice:", err)
	if errors.As(err, &usage) {
		return exitUsage
	}
	return exitFailed
}

// args makes a wrong number of arguments a usage error.
func args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, a []string) error {
		if err := check(cmd, a); err != nil {
			return badUsage(fmt.Errorf("%w; see %s --help", err, cmd.CommandPath()))
		}
		return nil
	}
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "sluice", buildVersion())
			return err
		},
	}
}
