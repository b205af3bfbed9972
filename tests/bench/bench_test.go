package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/nfsd/bench"
	"sluice/nfsd/bench/compare"
)

// bench1 runs one measurement that has to succeed.
func bench1(t testing.TB, args ...string) (r bench.Result) {
	t.Helper()
	out, errOut, status := sluice(t, append([]string{"bench", args[0], "--json"}, args[1:]...)...)
	if status != 0 {
		t.Fatalf("%v: status %d\n%s", args, status, errOut)
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return r
}

// start runs a peer and returns the URL of the file.
func start(t testing.TB, p compare.Peer, file string) string {
	t.Helper()
	r, err := p.Start(context.Background(), file, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Stop)
	return r.Target.URL()
}

const fileSize = 8<<20 + 4321

// All data is read exactly once, from every server there is, and it is the file's.
func TestRead(t *testing.T) {
	file := dataFile(t, fileSize)
	peers := []compare.Peer{compare.Sluice("sluice", sluiceBin, "auto"), compare.Sluice("copy", sluiceBin, "copy"),
		compare.Command("spliceloop", filepath.Join(peerBins, "spliceloop")), compare.Command("go-nfs", filepath.Join(peerBins, "gonfs"))}
	for _, p := range peers {
		t.Run(p.Name, func(t *testing.T) {
			url := start(t, p, file)
			for _, args := range [][]string{
				{}, {"--conns", "3"}, {"--rsize", "4K", "--conns", "2"}, {"--rsize", "64K", "--depth", "1"}, {"--rsize", "12345"},
				{"--streams", "4"}, {"--shuffle", "16", "--rsize", "64K"}, {"--loops", "3"}, {"--conns", "4", "--threads", "4"},
			} {
				want := uint64(fileSize)
				if len(args) > 0 && args[0] == "--loops" {
					want *= 3
				}
				if r := bench1(t, append([]string{"dd", url}, args...)...); r.Bytes != want || r.Partial || r.Seconds <= 0 || r.Latency.P50 <= 0 {
					t.Errorf("%v: %+v, want %d bytes", args, r, want)
				}
				if len(args) > 0 && args[0] == "--loops" {
					continue
				}
				if r := bench1(t, append([]string{"dd", url, "--verify", file}, args...)...); r.Bytes != want || !r.Verified {
					t.Errorf("comparing, %v: %+v, want %d bytes", args, r, want)
				}
			}
		})
	}
}

// The server's CPU is seen, by role, and so is the client's.
func TestServerCPU(t *testing.T) {
	url := start(t, compare.Sluice("sluice", sluiceBin, "auto"), dataFile(t, fileSize))
	r := bench1(t, "dd", url, "--time", "500ms", "--conns", "2")
	if r.Server == nil || r.Server.CPU["server threads"] <= 0 || r.ClientCPU <= 0 || r.Seconds < 0.5 {
		t.Errorf("%+v", r)
	}
}

// Files of one server are read side by side.
func TestReadFiles(t *testing.T) {
	file := dataFile(t, fileSize)
	second := filepath.Join(filepath.Dir(file), "second")
	if err := os.WriteFile(second, bytes.Repeat([]byte("x"), 1<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	url := start(t, compare.Sluice("sluice", sluiceBin, "auto"), file)
	r := bench1(t, "dd", url, strings.TrimSuffix(url, "data")+"second", "--verify", file, "--verify", second, "--rsize", "64K")
	if r.Bytes != fileSize+1<<20 || r.Files != 2 {
		t.Errorf("%+v", r)
	}
}

func TestMeta(t *testing.T) {
	file := dataFile(t, 1000)
	url := start(t, compare.Sluice("sluice", sluiceBin, "auto"), file)
	for _, op := range bench.MetaOps {
		for _, u := range []string{url, strings.TrimSuffix(url, "/data")} {
			r := bench1(t, "meta", u, "--op", op, "--calls", "1000", "--conns", "3", "--depth", "16")
			if r.Op != op || r.Calls != 1000 {
				t.Errorf("%s of %s: %+v", op, u, r)
			}
		}
	}
}

// A cold read comes from the disk; where it cannot be had, there is no figure.
func TestCold(t *testing.T) {
	file := dataFile(t, fileSize)
	url := start(t, compare.Sluice("sluice", sluiceBin, "auto"), file)
	out, errOut, status := sluice(t, "bench", "dd", url, "--cold", "--json")
	if status == 0 {
		var r bench.Result
		if err := json.Unmarshal([]byte(out), &r); err != nil || !r.Cold {
			t.Errorf("%v: %s", err, out)
		}
		if r.Disk != nil && r.Disk.ReadsPerSecond == 0 {
			t.Errorf("a cold read did not read from the disk: %+v", r.Disk)
		}
	} else if status != 1 || hasFigure(out) || !strings.Contains(errOut, "stay in the page cache") {
		t.Errorf("status %d\n%s%s", status, out, errOut)
	}
	if os.Geteuid() == 0 {
		return // root can drop everything
	}
	f := &fake{size: 1000, maxRead: 1 << 20}
	out, errOut, status = sluice(t, "bench", "dd", f.start(t), "--cold")
	if status != 2 || hasFigure(out) {
		t.Errorf("a file that is not here: status %d\n%s%s", status, out, errOut)
	}
}

// An interrupt in the middle leaves a result that says so, and status 1.
func TestInterrupt(t *testing.T) {
	f := &fake{size: 1 << 30, maxRead: 64 << 10, delay: time.Millisecond}
	url := f.start(t)
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		cmd := exec.Command(sluiceBin, "bench", "dd", url)
		var out bytes.Buffer
		cmd.Stdout = &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		f.mu.Lock()
		from := f.reads
		f.mu.Unlock()
		for begun := false; !begun; time.Sleep(10 * time.Millisecond) {
			f.mu.Lock()
			begun = f.reads > from+50
			f.mu.Unlock()
		}
		cmd.Process.Signal(s)
		timer := time.AfterFunc(commandLimit, func() { cmd.Process.Kill() })
		cmd.Wait()
		timer.Stop()
		if code := cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(out.String(), "INTERRUPTED") || !hasFigure(out.String()) {
			t.Errorf("%v: status %d\n%s", s, code, out.String())
		}
	}
}

// A comparison measures what is there, names what is missing and what failed, and
// writes a report.
func TestCompare(t *testing.T) {
	file := dataFile(t, fileSize)
	st, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	// Its file is taken for the one that is here, so that only that is dropped from
	// the page cache.
	broken := &fake{size: fileSize, inode: st.Sys().(*syscall.Stat_t).Ino, maxRead: 1 << 20,
		read: func(uint64, uint32) reply { return reply{status: 5} }}
	brokenURL := strings.TrimSuffix(broken.start(t), "/export/file") + file
	dir := t.TempDir()
	out, errOut, status := sluice(t, "bench", "compare", file, "--ganesha=false", "--rounds", "2", "--time", "20ms", "--out", dir,
		"--send-paths", "copy", "--peer", "nullserver="+filepath.Join(peerBins, "nullserver"), "--peer", "absent=/nonexistent/server",
		"--peer", "broken="+brokenURL)
	if status != 1 {
		t.Errorf("status %d, want 1 for the broken peer\n%s", status, errOut)
	}
	for _, want := range []string{"sluice-copy", "nullserver", "missing: absent", "FAILED: broken: 4 KiB reads"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s%s", want, out, errOut)
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, "results.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	rounds := make(map[string]int)
	var order []string // of one workload
	for line := range bytes.Lines(b) {
		var r bench.Result
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		if r.Peer == "broken" && r.Op == bench.OpRead {
			t.Errorf("a figure of reads that failed: %s", line)
		}
		if r.RSize == 1<<20 && r.Conns == 4 && !r.Cold {
			order = append(order, r.Peer)
		}
		rounds[fmt.Sprint(r.Peer, " ", r.Settings)]++
	}
	for what, n := range rounds {
		if n != 2 {
			t.Errorf("%s: %d rounds, want 2", what, n)
		}
	}
	if want := []string{"sluice-copy", "nullserver", "nullserver", "sluice-copy"}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
	if rounds["sluice-copy 1 MiB reads, 4 connections of depth 8"] == 0 {
		t.Errorf("no reads of 1 MiB: %v", rounds)
	}
}

// Run by root, a comparison is in namespaces of its own. A signal reaches it there,
// once, and what has been measured until then is printed and marked.
func TestCompareIsolated(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED: needs root")
	}
	file := dataFile(t, fileSize)
	cmd := exec.Command(sluiceBin, "bench", "compare", file, "--ganesha=false", "--send-paths", "copy", "--rounds", "1", "--time", "300ms")
	var out bytes.Buffer
	cmd.Stdout = &out
	progress, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(commandLimit, func() { cmd.Process.Kill() })
	defer timer.Stop()
	lines := bufio.NewScanner(progress)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "3 of ") {
			cmd.Process.Signal(syscall.SIGTERM)
		}
	}
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(out.String(), "INTERRUPTED") || strings.Count(out.String(), "sluice-copy") < 2 {
		t.Errorf("status %d, want 1\n%s", code, out.String())
	}
}

func TestSweep(t *testing.T) {
	file := dataFile(t, fileSize)
	out, errOut, status := sluice(t, "bench", "sweep", file, "--send-paths", "auto,copy", "--sizes", "4K,1M", "--conns", "1,2", "--time", "20ms", "--rounds", "1")
	if status != 0 || strings.Count(out, "sluice-auto") != 4 || strings.Count(out, "sluice-copy") != 4 {
		t.Errorf("status %d\n%s%s", status, out, errOut)
	}
}
