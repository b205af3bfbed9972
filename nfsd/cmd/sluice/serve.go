package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/export"
	"sluice/ioctx/numa"
	"sluice/nfsd/sendpath"
)

// serveFlags is the command line of serve, as given.
type serveFlags struct {
	exports   string
	listen    []string
	threads   int
	sendPath  string
	ioContext string
	readahead string
	ioUring   string
	numa      string
	stateDir  string
	metrics   string
	rpcbind   string
	maxRead   string
	maxConns  int
	maxPeer   int
	patience  time.Duration
	sandbox   string
	logFormat string
	logLevel  string
}

func serveCommand() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve [DIR...]",
		Short: "Serve directories over NFSv3, read-only",
		Long: `Serve directories over NFSv3, read-only, until SIGTERM.

With DIR, each directory is exported to this machine alone, without any
configuration. Without, the exports file says what is exported to whom, in the
syntax of exports(5). SIGHUP reads it again.

NFS, MOUNT and the portmapper answer on one TCP port, MOUNT and the portmapper
on the same UDP port too.`,
		RunE: func(_ *cobra.Command, dirs []string) error {
			cfg, err := f.config(dirs)
			if err != nil {
				return badUsage(err)
			}
			if f.sandbox == "auto" {
				if cfg.fence, err = enterFence(cfg.stateDir); err != nil {
					return fmt.Errorf("giving up privileges: %w; --sandbox off does without", err)
				}
			}
			return serve(cfg)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.exports, "exports", "", "exports `FILE` (default "+export.DefaultFile+" if no DIR is given)")
	fs.StringArrayVar(&f.listen, "listen", nil, "`ADDR:PORT` to listen on, several times if need be (default every address, port 2049; with DIR only loopback)")
	fs.IntVar(&f.threads, "threads", 0, "number of server threads (default one per CPU, at least 2)")
	fs.StringVar(&f.sendPath, "send-path", "auto", "how READ data leaves: auto, splice, uring or copy")
	fs.StringVar(&f.ioContext, "io-context", "shared", "shared: all threads read from disks through one I/O context; private: each has its own")
	fs.StringVar(&f.readahead, "readahead", "auto", "auto: sequential streams are read ahead as far as pays; off: left to the kernel; or the most to read ahead, such as 8M")
	fs.StringVar(&f.ioUring, "io-uring", "auto", "auto: read from disks through io_uring where the kernel lets us; off: on threads")
	fs.StringVar(&f.numa, "numa", "auto", "where threads run, `auto|off|node=N|netdev=IF`. auto: on the NUMA node of the network interface that is listened on, or on each node for the clients that arrive there; node or netdev: on that node, with its memory only")
	fs.StringVar(&f.stateDir, "state-dir", defaultStateDir(), "`DIR` for the key of file handles and the status socket")
	fs.StringVar(&f.metrics, "metrics", "", "`ADDR:PORT` for Prometheus metrics (default none)")
	fs.StringVar(&f.rpcbind, "rpcbind", "auto", "auto: register with a local rpcbind if one runs; off")
	fs.StringVar(&f.maxRead, "max-read", "1M", "longest READ: a power of two from 4K to 4M")
	fs.IntVar(&f.maxConns, "max-connections", 0, "most TCP connections at once (default by the limit on open files)")
	fs.IntVar(&f.maxPeer, "max-connections-per-client", 0, "most TCP connections of one IPv4 address or IPv6 /64 at once (default a quarter of all)")
	fs.DurationVar(&f.patience, "peer-timeout", 2*time.Minute, "end connections whose peer leaves a call unfinished, or takes nothing of its replies, for this long")
	fs.StringVar(&f.sandbox, "sandbox", "auto", "auto: give up all privileges that serving does not need; off: keep them")
	fs.StringVar(&f.logFormat, "log-format", "text", "text or json")
	fs.StringVar(&f.logLevel, "log-level", "info", "debug, info, warn or error")
	return cmd
}

// defaultStateDir is where state goes: as usual for a service, or for a user.
func defaultStateDir() string {
	if os.Geteuid() == 0 {
		return "/var/lib/sluice"
	}
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "sluice")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".local", "state", "sluice")
}

// config is the command line of serve, understood.
type config struct {
	dirs    []string
	exports string
	listen  []string
	threads int
	// threadsByCPU says that threads is the default for the CPUs there are.
	threadsByCPU bool
	numa         numa.Request
	sendPath     sendpath.Mode
	// private, noRing and readAhead are for the I/O context.
	private   bool
	noRing    bool
	readAhead int64
	stateDir  string
	metrics   string
	rpcbind   bool
	maxRead   int
	maxConns  int
	// maxConnsPerClient is 0 for the default, a part of all.
	maxConnsPerClient int
	peerTimeout       time.Duration
	// fence says what the process has given up.
	fence string
	log   *slog.Logger
}

// config validates the flags and fills in defaults.
func (f *serveFlags) config(dirs []string) (*config, error) {
	c := &config{dirs: dirs, exports: f.exports, listen: f.listen, threads: f.threads, stateDir: f.stateDir,
		metrics: f.metrics, maxConns: f.maxConns, maxConnsPerClient: f.maxPeer, peerTimeout: f.patience}
	var errs []error
	check := func(err error) { errs = append(errs, err) }
	var err error
	c.sendPath, err = sendpath.ParseMode(f.sendPath)
	check(err)
	c.maxRead, err = parseSize("--max-read", f.maxRead)
	check(err)
	c.log, err = newLogger(f.logFormat, f.logLevel)
	check(err)
	check(oneOf("--io-context", f.ioContext, "shared", "private"))
	check(oneOf("--io-uring", f.ioUring, "auto", "off"))
	c.private, c.noRing = f.ioContext == "private", f.ioUring == "off"
	c.readAhead, err = parseReadAhead(f.readahead)
	check(err)
	c.numa, err = numa.ParseRequest(f.numa)
	check(flagError("--numa", err))
	check(oneOf("--sandbox", f.sandbox, "auto", "off"))
	check(oneOf("--rpcbind", f.rpcbind, "auto", "off"))
	c.rpcbind = f.rpcbind == "auto"
	if f.threads < 0 || f.threads > 1024 {
		check(fmt.Errorf("--threads %d: must be from 1 to 1024", f.threads))
	}
	if f.maxConns < 0 || f.maxPeer < 0 {
		check(errors.New("--max-connections and --max-connections-per-client: must be at least 1"))
	}
	if f.patience != 0 && f.patience < time.Second {
		check(fmt.Errorf("--peer-timeout %v: must be at least 1s", f.patience))
	}
	if f.stateDir == "" {
		check(errors.New("--state-dir: there is no home directory to default to; name one"))
	}
	if len(dirs) > 0 && f.exports != "" {
		check(errors.New("both DIR and --exports given; name directories in the exports file instead"))
	}
	c.defaults()
	return c, errors.Join(errs...)
}

func (c *config) defaults() {
	if c.threads == 0 {
		c.threads, c.threadsByCPU = max(2, runtime.NumCPU()), true
	}
	if len(c.dirs) == 0 && c.exports == "" {
		c.exports = export.DefaultFile
	}
	if len(c.listen) == 0 {
		c.listen = []string{":2049"}
		if len(c.dirs) > 0 {
			c.listen = []string{"127.0.0.1:2049", "[::1]:2049"}
		}
	}
}

// flagError says which flag an error is about.
func flagError(flag string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %w", flag, err)
}

func oneOf(flag, value string, allowed ...string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return fmt.Errorf("%s %q: must be %s", flag, value, strings.Join(allowed, " or "))
}

// parseSize reads a number of bytes with an optional suffix K or M.
func parseSize(flag, s string) (int, error) {
	unit := 1
	digits := s
	switch {
	case strings.HasSuffix(s, "K"):
		unit, digits = 1<<10, s[:len(s)-1]
	case strings.HasSuffix(s, "M"):
		unit, digits = 1<<20, s[:len(s)-1]
	}
	n, err := strconv.ParseUint(digits, 10, 31)
	if err != nil || n == 0 || n > (1<<31-1)/uint64(unit) {
		return 0, fmt.Errorf("%s %q: must be a number of bytes, with K or M for KiB or MiB", flag, s)
	}
	return int(n) * unit, nil
}

func newLogger(format, level string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("--log-level %q: must be debug, info, warn or error", level)
	}
	o := &slog.HandlerOptions{Level: l}
	switch format {
	case "text":
		return slog.New(newLimitHandler(slog.NewTextHandler(os.Stderr, o))), nil
	case "json":
		return slog.New(newLimitHandler(slog.NewJSONHandler(os.Stderr, o))), nil
	}
	return nil, fmt.Errorf("--log-format %q: must be text or json", format)
}
