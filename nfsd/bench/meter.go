package bench

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"time"

	"sluice/nfsd/bench/client"
	"sluice/nfsd/bench/host"
	"sluice/nfsd/bench/load"
)

// meter takes the readings around a run.
type meter struct {
	o      *Options
	srv    *client.Server
	server *host.Server // nil if it is not on this machine
	disk   *host.Disk   // nil if none is known

	started       time.Time
	serverCPU     host.CPU
	clientCPU     time.Duration
	machineCPU    time.Duration
	serverUsed    map[string]time.Duration
	clientUsed    time.Duration
	machineUsed   time.Duration
	diskAt, diskN host.DiskCounters
}

func newMeter(o *Options, srv *client.Server) *meter {
	return &meter{o: o, srv: srv, server: host.FindServer(netip.AddrPortFrom(srv.Addr, srv.Port))}
}

// localFile is the path on this machine of the i-th target; "" if it cannot be
// told. Servers export a directory by the name that it has on their machine.
func (m *meter) localFile(i int, obj *client.Object) string {
	path := m.o.Targets[i].Path
	if host.IsLocal(m.srv.Addr) && host.SameFile(path, obj.FileID, obj.Size) {
		return path
	}
	return ""
}

func (m *meter) findDisk(objects []*client.Object) {
	if path := m.localFile(0, objects[0]); path != "" {
		m.disk, _ = host.DiskOf(path) // without one there is nothing to tell
	}
}

// dropCache removes the files from the server's page cache.
func (m *meter) dropCache(objects []*client.Object) error {
	if !host.IsLocal(m.srv.Addr) {
		return usage("the server is not on this machine, so its cache cannot be dropped from here; " +
			"there, as root: sync; echo 1 >/proc/sys/vm/drop_caches; then measure without asking for cold reads")
	}
	for i, obj := range objects {
		path := m.localFile(i, obj)
		if path == "" {
			if os.Geteuid() == 0 {
				return host.DropAll()
			}
			return usage("%s is not the file that the server has by this name, so only root can drop it from the cache", m.o.Targets[i].Path)
		}
		if err := host.DropFile(path); err != nil {
			return fmt.Errorf("the cache cannot be dropped: %s: %w", path, err)
		}
	}
	return nil
}

func (m *meter) loadOptions(source load.Source) load.Options {
	return load.Options{Dial: m.srv.Dial, Source: source, Conns: m.o.Conns, Depth: m.o.Depth, Threads: m.o.Threads,
		Time: m.o.Time, Timeout: m.o.Timeout, Begin: m.begin, End: m.end}
}

func (m *meter) begin() {
	m.started = time.Now()
	if m.disk != nil {
		m.diskAt, _ = m.disk.Counters()
	}
	if m.server != nil {
		m.serverCPU = m.server.CPU()
	}
	m.clientCPU, m.machineCPU = host.Self(), host.Busy()
}

func (m *meter) end() {
	m.clientUsed, m.machineUsed = host.Self()-m.clientCPU, host.Busy()-m.machineCPU
	if m.server != nil {
		m.serverUsed = m.server.CPU().Since(m.serverCPU)
	}
	if m.disk != nil {
		m.diskN, _ = m.disk.Counters()
	}
}

func (m *meter) run(ctx context.Context, lo load.Options) (Result, error) {
	got, err := load.Run(ctx, lo)
	if err != nil {
		return Result{}, err
	}
	r := Result{Settings: m.o.Settings, Target: m.o.Targets[0].URL(), Files: len(m.o.Targets), Started: m.started,
		Seconds: got.Elapsed.Seconds(), Calls: got.Calls, Bytes: got.Bytes, Partial: got.Partial,
		Latency: latencyOf(got.Latency), ClientCPU: m.clientUsed.Seconds()}
	r.Verified = lo.Verify != nil
	if m.server != nil {
		r.Server = &ServerUse{Name: m.server.Name, PIDs: m.server.PIDs, CPU: make(map[string]float64)}
		for role, d := range m.serverUsed {
			r.Server.CPU[role] = d.Seconds()
		}
	}
	rest := m.machineUsed.Seconds() - r.ClientCPU
	if r.Server != nil {
		rest -= r.Server.Total()
	}
	r.RestCPU = max(0, rest)
	if m.disk != nil {
		u := m.diskN.Since(m.diskAt, m.disk.Name, got.Elapsed)
		r.Disk = &u
	}
	return r, nil
}
