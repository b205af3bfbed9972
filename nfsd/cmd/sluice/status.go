package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/nfsd"
	"sluice/rpc"
)

// A running server answers on a Unix socket in its state directory, one for each
// process: whoever connects gets one JSON object.
const (
	statusPattern = "status-*.sock"
	statusTimeout = 5 * time.Second
)

// status is what `sluice status` shows.
type status struct {
	Version   string    `json:"version"`
	PID       int       `json:"pid"`
	Started   time.Time `json:"started"`
	Addresses []string  `json:"addresses"`
	Exports   int       `json:"exports"`
	// ExportsError says why the exports file was not taken, if it was not.
	ExportsError string     `json:"exports_error,omitempty"`
	Threads      int        `json:"threads"`
	Privileged   bool       `json:"privileged"`
	NUMA         numaStatus `json:"numa"`
	RPC          rpc.Stats  `json:"rpc"`
	NFS          nfsd.Stats `json:"nfs"`
}

func (d *daemon) status() status {
	s := status{Version: buildVersion(), PID: os.Getpid(), Started: d.started, Exports: len(d.service.Exports()),
		Threads: d.cfg.threads, Privileged: d.service.Switches(), RPC: d.server.Stats(), NFS: d.service.Stats()}
	s.NUMA = d.numaStatus(s.NFS.IO.Devices)
	for _, a := range d.addrs {
		s.Addresses = append(s.Addresses, a.String())
	}
	if err := d.reloadError.Load(); err != nil {
		s.ExportsError = (*err).Error()
	}
	return s
}

// serveStatus opens the socket. Without one the server runs all the same.
func (d *daemon) serveStatus() (stop func()) {
	path := filepath.Join(d.cfg.stateDir, strings.Replace(statusPattern, "*", fmt.Sprint(os.Getpid()), 1))
	_ = os.Remove(path) // of an earlier process with our number
	l, err := net.Listen("unix", path)
	if err != nil {
		d.cfg.log.Warn("no status socket", "error", err)
		return func() {}
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.SetDeadline(time.Now().Add(statusTimeout))
			_ = json.NewEncoder(c).Encode(d.status()) // who hangs up does not want it
			c.Close()
		}
	}()
	return func() { l.Close() }
}

func statusCommand() *cobra.Command {
	var asJSON bool
	var dir string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what the running servers do",
		Args:  args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := queryAll(dir)
			if err != nil {
				return err
			}
			if asJSON {
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetIndent("", "  ")
				return e.Encode(all)
			}
			for _, s := range all {
				s.print(cmd.OutOrStdout())
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, a list of servers")
	cmd.Flags().StringVar(&dir, "state-dir", defaultStateDir(), "state `DIR` of the servers")
	return cmd
}

// queryAll asks every server whose socket is in dir. Sockets that nobody listens
// on any more are skipped.
func queryAll(dir string) ([]status, error) {
	paths, err := filepath.Glob(filepath.Join(dir, statusPattern))
	if err != nil {
		return nil, err
	}
	var all []status
	for _, p := range paths {
		c, err := net.DialTimeout("unix", p, statusTimeout)
		if err != nil {
			continue
		}
		c.SetDeadline(time.Now().Add(statusTimeout))
		var s status
		err = json.NewDecoder(c).Decode(&s)
		c.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
		all = append(all, s)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no server runs with the state directory %s; --state-dir names another", dir)
	}
	return all, nil
}

func (s *status) print(w io.Writer) {
	fmt.Fprintf(w, "sluice %s, pid %d, up %s, on %s\n", s.Version, s.PID, time.Since(s.Started).Round(time.Second),
		strings.Join(s.Addresses, " "))
	fmt.Fprintf(w, "exports      %d\n", s.Exports)
	if s.ExportsError != "" {
		fmt.Fprintf(w, "             the exports file was not taken: %s\n", s.ExportsError)
	}
	fmt.Fprintf(w, "threads      %d server, %d waiting\n", s.Threads, s.RPC.Waiting)
	s.NUMA.print(w)
	fmt.Fprintf(w, "connections  %d open, %d accepted, %d refused, %d ended in mid-call\n", s.RPC.Connections, s.RPC.Accepted, s.RPC.Refused, s.RPC.Stalled)
	n := s.NFS
	fmt.Fprintf(w, "files        %d open, %d opened, %d evicted\n", n.FilesOpen, n.FilesOpened, n.FilesEvicted)
	fmt.Fprintf(w, "pipes        %d in use, %d made, %d discarded\n", n.PipesInUse, n.PipesMade, n.PipesDiscarded)
	printSend(w, n.Send)
	printIO(w, n.IO)
	fmt.Fprintf(w, "fetched      %d reads by waiting threads\n", n.ReadsFetched)
	fmt.Fprintf(w, "names        %d look-ups answered from memory\n", n.NamesKnown)
	var names []string
	for name := range s.RPC.Calls {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(w, "  %-22s %d\n", name, s.RPC.Calls[name])
	}
}

// buildVersion is the module's version or the commit, as the build recorded it.
func buildVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v += " " + s.Value[:min(12, len(s.Value))]
		}
	}
	return v
}
