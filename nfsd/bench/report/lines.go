package report

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strings"

	"sluice/nfsd/bench"
)

// JSON writes results as JSON lines, an object for each measurement.
func JSON(w io.Writer, results []bench.Result) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	for i := range results {
		if err := e.Encode(&results[i]); err != nil {
			return err
		}
	}
	return nil
}

// Bench writes results in the format of Go's benchmarks
// (golang.org/design/14313-benchmark-format), which benchstat reads: the rounds of
// one peer are samples of one benchmark.
func Bench(w io.Writer, results []bench.Result, cpu string) error {
	_, err := fmt.Fprintf(w, "goos: %s\ngoarch: %s\ncpu: %s\n", runtime.GOOS, runtime.GOARCH, cpu)
	for i := range results {
		if err == nil && results[i].Calls > 0 && !results[i].Partial {
			_, err = fmt.Fprintln(w, benchLine(&results[i]))
		}
	}
	return err
}

func benchLine(r *bench.Result) string {
	var b strings.Builder
	b.WriteString("Benchmark" + strings.ToUpper(r.Op[:1]) + r.Op[1:])
	if r.Peer != "" {
		fmt.Fprintf(&b, "/peer=%s", strings.ReplaceAll(r.Peer, " ", "_"))
	}
	if r.IsRead() {
		fmt.Fprintf(&b, "/rsize=%s", bench.FormatSize(uint64(r.RSize)))
	}
	fmt.Fprintf(&b, "/conns=%d/depth=%d", r.Conns, r.Depth)
	if r.Streams > 1 {
		fmt.Fprintf(&b, "/streams=%d", r.Streams)
	}
	if r.Shuffle > 1 {
		fmt.Fprintf(&b, "/shuffle=%d", r.Shuffle)
	}
	if r.Cold {
		b.WriteString("/cold")
	}
	if r.Where != "" {
		fmt.Fprintf(&b, "/where=%s", strings.Join(strings.FieldsFunc(r.Where, func(c rune) bool { return c <= ' ' || c == '/' }), "_"))
	}
	fmt.Fprintf(&b, " %d %.1f ns/op", r.Calls, r.Seconds*1e9/float64(r.Calls))
	unit := "µs-cpu/op"
	if r.IsRead() {
		fmt.Fprintf(&b, " %.2f MB/s", r.Rate()/1e6)
		unit = "ms-cpu/GB"
	}
	if r.Server != nil {
		fmt.Fprintf(&b, " %.2f server-%s", r.Cost(r.Server.Total()), unit)
	}
	fmt.Fprintf(&b, " %.2f client-%s %.1f p50-µs %.1f p99-µs", r.Cost(r.ClientCPU), unit, r.Latency.P50, r.Latency.P99)
	return b.String()
}
