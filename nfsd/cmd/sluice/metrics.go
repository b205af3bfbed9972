package main

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"sluice/ioctx"
)

// collector turns a status snapshot into metrics when it is asked for them.
type collector struct{ d *daemon }

var (
	callsDesc = prometheus.NewDesc("sluice_rpc_calls_total", "Calls answered.", []string{"procedure"}, nil)
	connsDesc = prometheus.NewDesc("sluice_connections", "Open TCP connections.", nil, nil)
	filesDesc = prometheus.NewDesc("sluice_open_files", "Files in the cache of open files.", nil, nil)
	pipesDesc = prometheus.NewDesc("sluice_pipes_in_use", "Pipes that hold or will hold READ data.", nil, nil)
	readsDesc = prometheus.NewDesc("sluice_reads_total", "READs by send path.", []string{"path"}, nil)
)

func (c collector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

func (c collector) Collect(ch chan<- prometheus.Metric) {
	s := c.d.status()
	counter := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	gauge := func(d *prometheus.Desc, v int) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v))
	}
	for name, n := range s.RPC.Calls {
		counter(callsDesc, n, name)
	}
	gauge(connsDesc, s.RPC.Connections)
	gauge(filesDesc, s.NFS.FilesOpen)
	gauge(pipesDesc, s.NFS.PipesInUse)
	for _, d := range s.NFS.IO.Devices {
		collectDevice(ch, &d)
	}
	counter(readsDesc, s.NFS.Send.Inline, "inline")
	counter(readsDesc, s.NFS.Send.Spliced, "splice")
	counter(readsDesc, s.NFS.Send.Ringed, "uring")
	counter(readsDesc, s.NFS.Send.Copied, "copy")
}

// deviceMetrics are the counters of the I/O context, by device.
var deviceMetrics = []struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*ioctx.DeviceStats) float64
}{
	{deviceDesc("requests_total", "Units read."), prometheus.CounterValue, func(d *ioctx.DeviceStats) float64 { return float64(d.Requests) }},
	{deviceDesc("bytes_total", "Bytes read."), prometheus.CounterValue, func(d *ioctx.DeviceStats) float64 { return float64(d.Bytes) }},
	{deviceDesc("ahead_bytes_total", "Bytes read ahead for streams."), prometheus.CounterValue, func(d *ioctx.DeviceStats) float64 { return float64(d.Ahead) }},
	{deviceDesc("waste_bytes_total", "Bytes read ahead that nobody asked for."), prometheus.CounterValue, func(d *ioctx.DeviceStats) float64 { return float64(d.Waste) }},
	{deviceDesc("hits_total", "READs that found what was read ahead."), prometheus.CounterValue, func(d *ioctx.DeviceStats) float64 { return float64(d.Hits) }},
	{deviceDesc("waits_total", "READs that waited."), prometheus.CounterValue, func(d *ioctx.DeviceStats) float64 { return float64(d.Waits) }},
	{deviceDesc("coalesced_total", "READs that waited for what was on its way already."), prometheus.CounterValue, func(d *ioctx.DeviceStats) float64 { return float64(d.Coalesced) }},
	{deviceDesc("turns_total", "Changes to another stream."), prometheus.CounterValue, func(d *ioctx.DeviceStats) float64 { return float64(d.Turns) }},
	{deviceDesc("lost_total", "Times that what was read ahead was gone."), prometheus.CounterValue, func(d *ioctx.DeviceStats) float64 { return float64(d.Lost) }},
	{deviceDesc("failed_total", "Units that could not be read."), prometheus.CounterValue, func(d *ioctx.DeviceStats) float64 { return float64(d.Failed) }},
	{deviceDesc("gave_up_total", "READs answered with JUKEBOX, as the device did not answer."), prometheus.CounterValue, func(d *ioctx.DeviceStats) float64 { return float64(d.GaveUp) }},
	{deviceDesc("streams", "Streams being read."), prometheus.GaugeValue, func(d *ioctx.DeviceStats) float64 { return float64(d.Streams) }},
	{deviceDesc("in_flight", "Units being read."), prometheus.GaugeValue, func(d *ioctx.DeviceStats) float64 { return float64(d.InFlight) }},
}

func deviceDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("sluice_io_"+name, help, []string{"device"}, nil)
}

func collectDevice(ch chan<- prometheus.Metric, d *ioctx.DeviceStats) {
	for _, m := range deviceMetrics {
		ch <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(d), d.Name)
	}
}

// serveMetrics starts the metrics endpoint if there is to be one.
func (d *daemon) serveMetrics() (stop func(), err error) {
	if d.cfg.metrics == "" {
		return func() {}, nil
	}
	l, err := d.socks.listenMetrics(d.cfg.metrics)
	if err != nil {
		return nil, fmt.Errorf("--metrics: %w", err)
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(collector{d}, collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewGoCollector())
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			d.cfg.log.Error("metrics endpoint ended", "error", err)
		}
	}()
	return func() { srv.Close() }, nil
}
