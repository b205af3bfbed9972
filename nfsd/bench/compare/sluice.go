package compare

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"sluice/nfsd/bench/client"
)

// SendPaths are the values of serve's --send-path that Sluice is measured with,
// where the server has them.
var SendPaths = []string{"auto", "splice", "copy", "uring"}

// Sluice is this server, run by the given program with --send-path and further
// arguments.
func Sluice(name, program, sendPath string, args ...string) Peer {
	return Peer{Name: name, Start: func(ctx context.Context, file, dir string) (*Running, error) {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		exports := filepath.Join(dir, "exports")
		line := QuoteExport(filepath.Dir(file)) + " *(ro,insecure,no_root_squash)\n"
		if err := os.WriteFile(exports, []byte(line), 0o644); err != nil {
			return nil, err
		}
		argv := append([]string{"serve", "--exports", exports, "--state-dir", filepath.Join(dir, "state"), "--rpcbind", "off",
			"--listen", fmt.Sprintf("127.0.0.1:%d", port), "--send-path", sendPath}, args...)
		p, err := start(exec.Command(program, argv...), dir)
		if err != nil {
			return nil, err
		}
		r := &Running{Target: client.Target{Host: "127.0.0.1", Port: port, Path: file}, procs: []*process{p}}
		version, _ := exec.Command(program, "version").Output()
		r.Version = strings.TrimSpace(string(version))
		return r, r.wait(ctx, startLimit)
	}}
}

// QuoteExport writes a path so that exports(5) reads it back.
func QuoteExport(path string) string {
	var b strings.Builder
	for _, c := range []byte(path) {
		if c <= ' ' || strings.IndexByte(`"#\(`, c) >= 0 {
			fmt.Fprintf(&b, `\%03o`, c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
