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
	"sluice/nfsd"
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
	addrs   []netip.AddrPort
	started time.Time
	// reloadError is why the exports file was not taken, or nil.
	reloadError atomic.Pointer[error]
}

// serve runs the server until SIGTERM or SIGINT.
func serve(cfg *config) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)

	d := &daemon{cfg: cfg, started: time.Now()}
	socks, err := d.prepare(ctx)
	if err != nil {
		return badUsage(err)
	}
	if err := d.start(socks); err != nil {
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
	defer unregister()
	d.announce()
	d.watch(ctx, hup)
	<-ctx.Done()
	return d.drain()
}

// prepare does everything that a wrong configuration can make fail.
func (d *daemon) prepare(ctx context.Context) (*sockets, error) {
	if err := d.loadExports(ctx); err != nil {
		return nil, err
	}
	socks, err := listen(d.cfg.listen)
	if err != nil {
		return nil, err
	}
	d.addrs = socks.addrs()
	limits := planLimits(d.cfg.maxConns)
	d.service, err = nfsd.NewServer(nfsd.Config{StateDir: d.cfg.stateDir, MaxRead: d.cfg.maxRead,
		SendPath: d.cfg.sendPath, MaxFiles: limits.files, MaxPipes: limits.pipes, Log: d.cfg.log})
	if err == nil {
		d.server, err = d.newRPC(limits.conns)
	}
	if err != nil {
		socks.close()
		return nil, err
	}
	return socks, nil
}

func (d *daemon) newRPC(maxConns int) (*rpc.Server, error) {
	programs := []rpc.Program{d.service.NFS(), d.service.Mount()}
	addrs := portmapAddrs(d.addrs)
	var mappings []rpc.Mapping
	programs = append(programs, rpc.Portmap(func() []rpc.Mapping { return mappings }))
	mappings = rpc.Mappings(programs, addrs, addrs)
	return rpc.NewServer(rpc.Config{Programs: programs, Threads: d.cfg.threads, MaxConns: maxConns,
		NewThread: d.service.NewThread, NewConn: d.service.NewConn, Log: d.cfg.log})
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
func (d *daemon) start(socks *sockets) error {
	// Server threads never wait for a Go processor that a waiting thread has.
	runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), d.cfg.threads+4))
	d.service.SetExports(d.holder.State().Matcher)
	if err := socks.give(d.server); err != nil {
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
	addrs := portmapAddrs(d.addrs)
	r := rpc.Register(ctx, rpc.Mappings([]rpc.Program{d.service.NFS(), d.service.Mount()}, addrs, addrs), d.cfg.log)
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
		"send-path", d.cfg.sendPath.String(), "pid", os.Getpid())
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
				d.reloaded(d.holder.Reload(ctx))
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
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	if err := d.server.Shutdown(ctx); err != nil {
		d.cfg.log.Warn("not everything was taken", "error", err)
	}
	d.cfg.log.Info("stopped")
	return nil
}
