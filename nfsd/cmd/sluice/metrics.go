package main

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
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
	counter(readsDesc, s.NFS.Send.Inline, "inline")
	counter(readsDesc, s.NFS.Send.Spliced, "splice")
	counter(readsDesc, s.NFS.Send.Ringed, "uring")
	counter(readsDesc, s.NFS.Send.Copied, "copy")
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
