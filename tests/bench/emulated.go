package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"sluice/nfsd/bench"
	"sluice/nfsd/bench/compare"
)

const (
	emulatedWhere = "The kernel's own server, in an emulated machine"
	emulatedLimit = 6 * time.Minute
)

// emulated boots a kernel under emulation, which runs its own server and Sluice in
// turn under this client. The emulation costs all code alike: only ratios mean
// something.
func (o *options) emulated(ctx context.Context, out *compare.Outcome) {
	say("%s", emulatedWhere)
	ctx, cancel := context.WithTimeout(ctx, emulatedLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", filepath.Join(o.knfsd, "knfsd.sh"), "run", o.knfsd, o.server)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Stderr = os.Stderr
	console, err := cmd.Output()
	if err == nil {
		var results []bench.Result
		if results, err = parseConsole(console); err == nil {
			out.Results = append(out.Results, results...)
			return
		}
	}
	missing(out, emulatedWhere, err)
}

// parseConsole takes the lines "RESULT peer round JSON" from what the machine
// printed.
func parseConsole(console []byte) (results []bench.Result, err error) {
	lines := bufio.NewScanner(bytes.NewReader(console))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		f := strings.SplitN(strings.TrimSpace(lines.Text()), " ", 4)
		if f[0] != "RESULT" {
			continue
		}
		var r bench.Result
		if len(f) < 4 || json.Unmarshal([]byte(f[3]), &r) != nil {
			return nil, fmt.Errorf("the machine printed %q", lines.Text())
		}
		if _, err := fmt.Sscan(f[2], &r.Round); err != nil {
			return nil, fmt.Errorf("the machine printed %q", lines.Text())
		}
		r.Peer, r.Where = f[1], emulatedWhere
		results = append(results, r)
	}
	if len(results) == 0 {
		return nil, errors.New("the machine printed no results")
	}
	return results, lines.Err()
}
