package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"sluice/export"
	"sluice/ioctx/numa"
	"sluice/nfsd"
	"sluice/nfsd/sendpath"
	"sluice/rpc"
)

const (
	// drainTimeout is how long clients get to take the replies they are owed.
	drainTimeout = 10 * time.Second
	// rpcbindTimeout bounds talking to rpcbind, at start and at exit.
	rpcbindTimeout = 5 * time.Second
)

// daemon is a running server.
type daemon struct {
	cfg     *config
	holder  *export.Holder
	service *nfsd.Server
	server  *rpc.Server
	socks   *sockets
	addrs   []netip.AddrPort
	started time.Time
	// plan is where threads run on the machine of topology, nil if unknown.
	plan     *numa.Plan
	topology *numa.Topology
	// reloadError is why the exports file was not taken, or nil.
	reloadError atomic.Pointer[error]
}

// serve runs the server until SIGTERM or SIGINT.
func serve(cfg *config) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	signal.Ignore(syscall.SIGPIPE) // a log that nobody reads any more is no reason to end
	usr2 := make(chan os.Signal, 1)
	signal.Notify(usr2, syscall.SIGUSR2)

	d := &daemon{cfg: cfg, started: time.Now()}
	if err := d.prepare(ctx); err != nil {
		return badUsage(err)
	}
	if err := d.start(); err != nil {
		return err
	}
	defer d.service.Close()
	closeStatus := d.serveStatus()
	defer closeStatus()
	closeMetrics, err := d.serveMetrics()
	if err != nil {
		return badUsage(err)
	}
	defer closeMetrics()
	unregister := d.register(ctx)
	d.announce()
	d.watch(ctx, hup)
	d.watchdog(ctx)
	d.ready()
	if !d.run(ctx, usr2) {
		notifyStopping()
		defer unregister() // a successor has the same addresses registered
	}
	return d.drain()
}

// prepare does everything that a wrong configuration can make fail.
func (d *daemon) prepare(ctx context.Context) error {
	if err := d.loadExports(ctx); err != nil {
		return err
	}
	socks, err := listen(d.cfg.listen)
	if err != nil {
		return err
	}
	d.socks, d.addrs = socks, socks.addrs()
	if err := d.planNUMA(); err != nil {
		socks.close()
		return err
	}
	limits := planLimits(d.cfg.maxConns)
	d.service, err = nfsd.NewServer(nfsd.Config{StateDir: d.cfg.stateDir, MaxRead: d.cfg.maxRead,
		Send: d.pinnedRings(sendpath.Config{Mode: d.cfg.sendPath, NoRing: d.cfg.noRing}), SendLane: d.sendLane,
		IO: d.pinned(d.cfg.ioConfig(limits)), Log: d.cfg.log})
	if err == nil {
		d.server, err = d.newRPC(limits.conns)
	}
	if err != nil {
		socks.close()
	}
	return err
}

func (d *daemon) newRPC(maxConns int) (*rpc.Server, error) {
	programs := []rpc.Program{d.service.NFS(), d.service.Mount()}
	var mappings []rpc.Mapping
	programs = append(programs, rpc.Portmap(func() []rpc.Mapping { return mappings }))
	mappings = d.mappings(programs)
	return rpc.NewServer(rpc.Config{Programs: programs, Threads: d.cfg.threads, MaxConns: maxConns,
		MaxConnsPerPeer: d.connsPerClient(maxConns), PeerTimeout: d.cfg.peerTimeout,
		Place: d.place, PlaceWaiting: d.placeWaiting, NewThread: d.service.NewThread, NewConn: d.service.NewConn, Log: d.cfg.log})
}

// connsPerClient leaves room for other clients, unless there is little anyway.
func (d *daemon) connsPerClient(maxConns int) int {
	if d.cfg.maxConnsPerClient > 0 {
		return d.cfg.maxConnsPerClient
	}
	return max(maxConns/4, min(maxConns, 64))
}

// mappings is what the portmapper says, ours or rpcbind.
func (d *daemon) mappings(programs []rpc.Program) []rpc.Mapping {
	return rpc.Mappings(programs, portmapAddrs(d.addrs), portmapAddrs(d.socks.udpAddrs()))
}

// limits divides the descriptors that the process may have.
type limits struct{ conns, files, pipes int }

func planLimits(maxConns int) limits {
	var r unix.Rlimit
	n := 1024
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &r) == nil {
		n = int(min(r.Cur, 1<<20))
	}
	// A cached file takes up to two descriptors, and so does a pipe.
	l := limits{conns: min(n/2, 16384), files: min(n/8, 4096), pipes: min(n/16, 512)}
	if maxConns > 0 {
		l.conns = maxConns
	}
	return l
}

// loadExports reads the exports file, or makes the table for the directories
// given.
func (d *daemon) loadExports(ctx context.Context) error {
	if len(d.cfg.dirs) > 0 {
		t, err := export.Local(d.cfg.dirs...)
		if err != nil {
			return err
		}
		d.holder = export.HoldTable(t, nil)
		return nil
	}
	h, diags, err := export.NewHolder(ctx, export.LoadOptions{File: d.cfg.exports})
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) && d.cfg.exports == export.DefaultFile {
			err = fmt.Errorf("%w; name a directory to serve, or another file with --exports", err)
		}
		return fmt.Errorf("exports file %s: %w", d.cfg.exports, err)
	}
	if err := diags.Format(os.Stderr); err != nil {
		return err
	}
	if diags.HasErrors() {
		return fmt.Errorf("%s has errors; nothing is served", d.cfg.exports)
	}
	d.holder = h
	return nil
}

// start begins to serve.
func (d *daemon) start() error {
	// Server threads never wait for a Go processor that a waiting thread has.
	runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), d.cfg.threads+4))
	d.service.SetExports(d.holder.State().Matcher)
	if err := d.socks.give(d.server); err != nil {
		return err
	}
	return d.server.Start()
}

// register tells a local rpcbind, if there is one and the operator lets us.
func (d *daemon) register(ctx context.Context) (unregister func()) {
	if !d.cfg.rpcbind {
		return func() {}
	}
	ctx, cancel := context.WithTimeout(ctx, rpcbindTimeout)
	defer cancel()
	r := rpc.Register(ctx, d.mappings([]rpc.Program{d.service.NFS(), d.service.Mount()}), d.cfg.log)
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), rpcbindTimeout)
		defer cancel()
		r.Unregister(ctx)
	}
}

// announce tells the operator what is served, and how to mount it.
func (d *daemon) announce() {
	if !d.service.Switches() {
		d.cfg.log.Warn("not privileged: every client reads with this process's own rights",
			"uid", os.Geteuid(), "needs", "CAP_SETUID, CAP_SETGID, CAP_DAC_READ_SEARCH")
	}
	port := d.addrs[0].Port()
	served := d.service.Exports()
	for _, x := range served {
		fmt.Printf("%s  %s\n", x.Path, clients(x))
		fmt.Printf("    mount -t nfs -o vers=3,tcp,nolock,port=%d,mountport=%d %s:%s /mnt\n", port, port, d.mountHost(), x.Path)
	}
	d.cfg.log.Info("ready", "addresses", join(d.addrs), "exports", len(served), "threads", d.cfg.threads,
		"send-path", d.cfg.sendPath.String(), "sandbox", d.cfg.fence, "pid", os.Getpid())
}

// clients lists who an export is for.
func clients(x *export.Export) string {
	var s []string
	for _, e := range x.Entries {
		mode := "ro"
		if !e.Options.ReadOnly {
			mode = "rw, served read-only"
		}
		s = append(s, fmt.Sprintf("%s(%s)", e.Client, mode))
	}
	return strings.Join(s, " ")
}

// mountHost is an address that a client could use: for a server that listens
// everywhere, this machine's name.
func (d *daemon) mountHost() string {
	a := d.addrs[0].Addr()
	switch {
	case a.IsUnspecified():
		if name, err := os.Hostname(); err == nil {
			return name
		}
		return "localhost"
	case a.Is6():
		return "[" + a.String() + "]"
	}
	return a.String()
}

// watch reloads the exports when told to and when their files change.
func (d *daemon) watch(ctx context.Context, hup <-chan os.Signal) {
	if len(d.cfg.dirs) > 0 {
		return
	}
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-hup:
				done := notifyReloading()
				d.reloaded(d.holder.Reload(ctx))
				done()
			}
		}
	}()
	go func() {
		if err := d.holder.Watch(ctx, d.reloaded); err != nil && ctx.Err() == nil {
			d.cfg.log.Warn("changes of the exports file are not noticed; send SIGHUP", "error", err)
		}
	}()
}

// reloaded puts a new table in force, or says why the old one stays.
func (d *daemon) reloaded(diags export.Diagnostics, err error) {
	for _, m := range diags {
		d.cfg.log.Warn("exports", "at", m.Pos.String(), "message", m.Message)
	}
	if err != nil {
		d.reloadError.Store(&err)
		d.cfg.log.Error("exports not reloaded", "error", err)
		return
	}
	d.reloadError.Store(nil)
	d.service.SetExports(d.holder.State().Matcher)
	d.cfg.log.Info("exports reloaded", "exports", len(d.service.Exports()))
}

// drain lets clients have their replies and stops.
func (d *daemon) drain() error {
	d.cfg.log.Info("draining")
	d.socks.dropKept()
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	if err := d.server.Shutdown(ctx); err != nil {
		d.cfg.log.Warn("not everything was taken", "error", err)
	}
	d.cfg.log.Info("stopped")
	return nil
}
