package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"sluice/nfsd/bench"
	"sluice/nfsd/bench/compare"
	"sluice/nfsd/bench/host"
)

func TestSample(t *testing.T) {
	for _, row := range []struct {
		s                Sample
		median, min, max float64
	}{{nil, 0, 0, 0}, {Sample{3}, 3, 3, 3}, {Sample{9, 1}, 5, 1, 9}, {Sample{7, 1, 3}, 3, 1, 7}, {Sample{4, 1, 3, 2}, 2.5, 1, 4}} {
		if row.s.Median() != row.median || row.s.Min() != row.min || row.s.Max() != row.max {
			t.Errorf("%v: %v, %v, %v", row.s, row.s.Median(), row.s.Min(), row.s.Max())
		}
	}
}

// result is a read of 1 GB in so many seconds, at half a CPU.
func result(peer string, rsize, conns, round int, seconds float64) bench.Result {
	return bench.Result{Settings: bench.Settings{Op: bench.OpRead, RSize: rsize, Conns: conns, Depth: 8}, Peer: peer, Round: round,
		Target: "nfs://127.0.0.1/f", Seconds: seconds, Bytes: 1e9, Calls: 1000, ClientCPU: 0.01,
		Latency: bench.Latency{P50: 100, P90: 150, P99: 300, P999: 800, Max: 1200},
		Server:  &bench.ServerUse{Name: peer, CPU: map[string]float64{host.Other: seconds / 2}}}
}

func testOutcome() compare.Outcome {
	var out compare.Outcome
	for round := range 3 {
		for _, size := range []int{4096, 1 << 20} {
			for _, conns := range []int{1, 4} {
				out.Results = append(out.Results, result("sluice-auto", size, conns, round+1, 0.1*float64(round+1)),
					result("ganesha", size, conns, round+1, 0.4), result(NullPeer, size, conns, round+1, 0.05))
			}
		}
		cold := result("sluice-auto", 1<<20, 4, round+1, 1)
		cold.Cold, cold.Disk = true, &host.DiskUse{Name: "vda", ReadsPerSecond: 1000, RequestKiB: 512, BusyPercent: 90}
		meta := result("ganesha", 0, 4, round+1, 1)
		meta.Op, meta.Bytes = "getattr", 0
		out.Results = append(out.Results, cold, meta)
	}
	out.Versions = []compare.Version{{Peer: "a", Version: "1"}, {Peer: "b", Version: "1"}, {Peer: "c", Version: "2"}}
	out.Missing = []compare.Missing{{Peer: "go-nfs", Reason: "not built"}}
	out.Failures = []compare.Failure{{Peer: "ganesha", Workload: bench.Settings{Op: "null", Conns: 1, Depth: 1}, Reason: "it hung"}}
	return out
}

// The report has the figures, what is missing, and pictures that are well-formed.
func TestReport(t *testing.T) {
	dir := t.TempDir()
	r := Report{Outcome: testOutcome(), Command: "sluice bench compare", Date: time.Unix(0, 0), Rounds: 3, Time: time.Second}
	if err := r.Write(dir); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "report.md"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for _, want := range []string{
		// The median of 10, 5 and 3.33 GB/s, twice that of Ganesha's 2.5; CPU 100 ms of 200.
		"| sluice-auto | 5.00 | 3.33–10.0 | 2.00 | 100 | 0.50 | 100 µs | 300 µs |",
		"| ganesha | 2.50 | 2.50–2.50 | 1.00 | 200 | 1.00 |",
		"1000/s of 512 KiB, 90 %", "| peer | GB/s | spread | × ganesha |", "| a, b | 1 |", "| c | 2 |", "- go-nfs: missing: not built", "- ganesha: NULL, 1 connection of depth 1: failed: it hung",
		"**GETATTR, 4 connections of depth 8**", "## What the client costs",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q", want)
		}
	}
	pictures := regexp.MustCompile(`\]\(([^)]*\.svg)\)`).FindAllStringSubmatch(text, -1)
	if len(pictures) != 5 {
		t.Errorf("%d pictures, want 5: %v", len(pictures), pictures)
	}
	for _, p := range pictures {
		checkXML(t, filepath.Join(dir, p[1]))
	}
	if t.Failed() {
		t.Log(text)
	}
}

func checkXML(t *testing.T, name string) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	d := xml.NewDecoder(f)
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
	}
}

// A report on nothing, or on one measurement, is a report too.
func TestReportOfLittle(t *testing.T) {
	for n := range 2 {
		r := Report{Outcome: compare.Outcome{Results: testOutcome().Results[:n], Partial: true}}
		dir := t.TempDir()
		if err := r.Write(dir); err != nil {
			t.Errorf("%d results: %v", n, err)
		}
		b, _ := os.ReadFile(filepath.Join(dir, "report.md"))
		if !bytes.Contains(b, []byte("Interrupted")) {
			t.Errorf("%d results: an interrupted run is not marked:\n%s", n, b)
		}
	}
}

// The lines are in the format of https://go.dev/design/14313-benchmark-format: a
// name that begins with Benchmark and an upper-case letter, iterations, and pairs of
// value and unit.
func TestBenchFormat(t *testing.T) {
	var b bytes.Buffer
	partial := result("x", 4096, 1, 1, 1)
	partial.Partial = true
	elsewhere := result("ganesha", 4096, 1, 1, 1)
	elsewhere.Where = "in a guest / elsewhere"
	if err := Bench(&b, append(testOutcome().Results, partial, elsewhere), "a CPU"); err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`^Benchmark[A-Z]\S* \d+( [0-9.]+ \S+)+$`)
	config := regexp.MustCompile(`^[a-z]+: .*$`)
	n := 0
	for l := range strings.Lines(b.String()) {
		l = strings.TrimSuffix(l, "\n")
		if line.MatchString(l) {
			n++
		} else if !config.MatchString(l) {
			t.Errorf("not in the format: %q", l)
		}
	}
	if want := len(testOutcome().Results) + 1; n != want {
		t.Errorf("%d lines, want %d:\n%s", n, want, b.String())
	}
	if !strings.Contains(b.String(), "/where=in_a_guest_elsewhere 1000 ") {
		t.Errorf("what was measured elsewhere has no name of its own:\n%s", b.String())
	}
	if want := "BenchmarkRead/peer=ganesha/rsize=4K/conns=1/depth=8 1000 400000.0 ns/op 2500.00 MB/s 200.00 server-ms-cpu/GB"; !strings.Contains(b.String(), want) {
		t.Errorf("no %q in\n%s", want, b.String())
	}
}

// JSON lines come back as the same results.
func TestJSON(t *testing.T) {
	var b bytes.Buffer
	want := testOutcome().Results
	if err := JSON(&b, want); err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(&b)
	for i := range want {
		var got bench.Result
		if err := d.Decode(&got); err != nil || got.Settings != want[i].Settings || got.Server.Total() != want[i].Server.Total() {
			t.Fatalf("result %d: %+v, %v", i, got, err)
		}
	}
}

// A partial measurement says so, before any figure.
func TestTextPartial(t *testing.T) {
	var b bytes.Buffer
	r := result("", 4096, 1, 0, 1)
	r.Partial = true
	Text(&b, &r)
	mark, figure := strings.Index(b.String(), "INTERRUPTED"), strings.Index(b.String(), "GB/s")
	if mark < 0 || figure < mark {
		t.Errorf("%s", b.String())
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0.00", 0.00412: "0.0041", 0.143: "0.14", 1.5: "1.50", 12.34: "12.3", 1234.5: "1234"} {
		if got := number(v); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
}

func TestCommandLine(t *testing.T) {
	if got, want := commandLine([]string{"a", "-n", "it's here", "b=c"}), `a -n 'it'\''s here' b=c`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
