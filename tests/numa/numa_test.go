package numa

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// The guest: CPUs 0 and 1 on node 0 with the disk, CPUs 2 and 3 on node 1 with the
// card.
const (
	cpus0, cpus1, cpusAll = "0-1", "2-3", "0-3"
	anyPolicy             = "default"
)

// bootTime bounds the guest's run: ten times what it takes on an idle machine with
// two CPUs.
const bootTime = 10 * time.Minute

// uring has data leave through io_uring too.
var uring = []string{"--send-path", "uring"}

// check judges a report.
type check func(t *testing.T, r *Report)

var scenarios = []struct {
	Scenario
	check check
}{
	{Scenario{Name: "node", NUMA: "node=1", Listen: "127.0.0.1", Clients: []int{0}}, onNode(1, "as asked", "bind:1")},
	{Scenario{Name: "netdev", NUMA: "netdev=eth0", Listen: "127.0.0.1", Clients: []int{0}}, onNode(1, "eth0 is on node 1", "bind:1")},
	{Scenario{Name: "auto, the card's address", NUMA: "auto", Listen: GuestIP, Clients: []int{3}}, onNode(1, "eth0 is on node 1", "prefer:1")},
	{Scenario{Name: "auto, loopback", NUMA: "auto", Listen: "127.0.0.1", Clients: []int{0, 3}}, onBothNodes},
	{Scenario{Name: "node, uring", NUMA: "node=0", Listen: "127.0.0.1", Args: uring, Clients: []int{3}}, withRings(1, onNode(0, "as asked", "bind:0"))},
	{Scenario{Name: "auto, loopback, uring", NUMA: "auto", Listen: "127.0.0.1", Args: uring, Clients: []int{0, 3}}, withRings(2, onBothNodes)},
	{Scenario{Name: "off", NUMA: "off", Listen: "127.0.0.1", Clients: []int{0}}, anywhere(cpusAll, "as asked")},
	{Scenario{Name: "cpuset", NUMA: "node=1", Listen: "127.0.0.1", Cpuset: "0-1", CpusetMems: "0", Clients: []int{0}},
		anywhere(cpus0, "as asked, but this process may use CPUs 0-1 and memory of nodes 0 only")},
	{Scenario{Name: "no such node", NUMA: "node=2", Listen: "127.0.0.1"}, refused("there is no node 2; nodes with CPUs: 0-1")},
	{Scenario{Name: "no such interface", NUMA: "netdev=eth9", Listen: "127.0.0.1"}, refused(`there is no network interface "eth9"; interfaces: eth0 lo`)},
}

func TestTwoNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: it takes minutes")
	}
	var list []Scenario
	for _, s := range scenarios {
		list = append(list, s.Scenario)
	}
	img, err := makeImage(t, list)
	if errors.Is(err, errUnavailable) {
		t.Skipf("SKIPPED, nothing is proved about NUMA: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), bootTime)
	defer cancel()
	reports, err := img.boot(ctx, t)
	if err != nil {
		t.Fatal(err)
	}
	if len(reports) != len(scenarios) {
		t.Fatalf("%d reports of %d scenarios", len(reports), len(scenarios))
	}
	for i, s := range scenarios {
		t.Run(s.Name, func(t *testing.T) {
			r := &reports[i]
			t.Logf("log of the server:\n%s", r.Log)
			if r.Name != s.Name || r.Error != "" {
				t.Fatalf("report of %q: %s", r.Name, r.Error)
			}
			for _, read := range r.Reads {
				if read.Bytes != dataBytes || read.Sum != img.sum {
					t.Errorf("the client on CPU %d read %d bytes, SHA-256 %s; want %d, %s", read.CPU, read.Bytes, read.Sum, dataBytes, img.sum)
				}
			}
			s.check(t, r)
			if t.Failed() {
				t.Logf("status: %v\nthreads: %+v", r.Status, r.Tasks)
			}
		})
	}
}

// role says what a thread is, by its name.
func role(comm string) string {
	for _, p := range []string{"sl-io", "sl-s", "sl-w", "sl-t", "iou-wrk-"} {
		if strings.HasPrefix(comm, p) {
			return p
		}
	}
	if prefix, rest, ok := strings.Cut(comm, "-n"); ok && prefix == "sl" {
		if _, kind, ok := strings.Cut(rest, "-"); ok {
			return "sl-" + strings.TrimRight(kind, "0123456789")
		}
	}
	return "go"
}

// placed is where a thread should be.
type placed struct{ cpus, policy string }

// checkThreads compares every thread with where it should be: Go's own anywhere,
// io-wq workers where the thread is that they work for, which their names tell.
func checkThreads(t *testing.T, r *Report, cpus, mems string, want func(Task) placed) {
	t.Helper()
	roles := make(map[string]int)
	for _, task := range r.Tasks {
		kind := role(task.Comm)
		roles[kind]++
		if task.TID == r.PID && task.Comm != "sluice" {
			t.Errorf("the process's first thread is named %s", task.Comm)
		}
		w := placed{cpus, anyPolicy}
		owner := task
		if tid, ok := strings.CutPrefix(task.Comm, "iou-wrk-"); ok {
			owner = r.task(tid)
		}
		if kind != "go" {
			w = want(owner)
		}
		got := placed{task.CPUs, task.Policy}
		if kind == "iou-wrk-" && w.cpus == cpus && (got.cpus == cpus0 || got.cpus == cpus1) {
			got.cpus = cpus // not pinned: up to Linux 6.3 io-wq has a pool on each node
		}
		if got != w || task.Mems != mems {
			t.Errorf("%s %d has CPUs %s, policy %s, memory nodes %s; want %s, %s, %s", task.Comm, task.TID, task.CPUs, task.Policy, task.Mems, w.cpus, w.policy, mems)
		}
	}
	if roles["sl-t"] == 0 || roles["go"] == 0 {
		t.Errorf("threads by role: %v", roles)
	}
	checkWorkers(t, r, roles)
}

// task returns the thread with a number.
func (r *Report) task(tid string) Task {
	for _, t := range r.Tasks {
		if fmt.Sprint(t.TID) == tid {
			return t
		}
	}
	return Task{}
}

// checkWorkers demands io-wq workers, whose placement checkThreads looks at, where
// the status says that io_uring is in use.
func checkWorkers(t *testing.T, r *Report, roles map[string]int) {
	t.Helper()
	mode := dig(r.Status, "nfs", "IO", "mode")
	t.Logf("I/O context %v; threads by role: %v", mode, roles)
	switch mode {
	case "shared", "private":
		if roles["iou-wrk-"] == 0 || roles["sl-io"] == 0 {
			t.Errorf("io_uring is in use without workers or submitter: %v", roles)
		}
	case "threads":
		t.Error("the guest's kernel has io_uring, and the server does not use it")
	default:
		t.Errorf("I/O context %v in the status", mode)
	}
}

// onNode wants everything of the server on one node.
func onNode(node int, reason, policy string) check {
	return func(t *testing.T, r *Report) {
		checkReason(t, r, reason)
		cpus := []string{cpus0, cpus1}[node]
		checkThreads(t, r, cpusAll, "0-1", func(Task) placed { return placed{cpus, policy} })
		checkStatusThreads(t, r, func(name string) string {
			if !strings.HasPrefix(name, fmt.Sprintf("sl-n%d-t", node)) {
				return ""
			}
			return cpus
		})
		checkMemory(t, r, policy)
		checkDevices(t, r)
	}
}

// onBothNodes wants a pool of threads on each node, and each client served by that
// of its node.
func onBothNodes(t *testing.T, r *Report) {
	checkReason(t, r, "no interface that is listened on has a known node")
	at := func(name string) placed {
		switch {
		case strings.HasPrefix(name, "sl-n0-"):
			return placed{cpus0, "prefer:0"}
		case strings.HasPrefix(name, "sl-n1-"):
			return placed{cpus1, "prefer:1"}
		}
		return placed{cpusAll, anyPolicy} // what serves both
	}
	checkThreads(t, r, cpusAll, "0-1", func(task Task) placed { return at(task.Comm) })
	checkStatusThreads(t, r, func(name string) string { return at(name).cpus })
	checkMemory(t, r, "prefer:0")
	checkMemory(t, r, "prefer:1")
	for i, read := range r.Reads {
		var own, other int64
		for name, ns := range read.RunNS {
			switch {
			case strings.HasPrefix(name, fmt.Sprintf("sl-n%d-t", i)):
				own += ns
			case role(name) == "sl-t":
				other += ns
			}
		}
		// Not all: the listener wakes any thread to take the connection.
		if own < 4*other {
			t.Errorf("for the client on CPU %d the threads of its node ran %v, others %v", read.CPU, time.Duration(own), time.Duration(other))
		}
	}
	if len(r.Reads) != 2 {
		t.Errorf("%d clients, want 2", len(r.Reads))
	}
}

// withRings wants what next wants of a server that sends through so many rings.
func withRings(rings int, next check) check {
	return func(t *testing.T, r *Report) {
		if n, _ := dig(r.Status, "nfs", "Send", "Ringed").(float64); n == 0 {
			t.Errorf("nothing left through a ring: %v", dig(r.Status, "nfs", "Send"))
		}
		threads := make(map[string]bool) // with workers
		for _, task := range r.Tasks {
			if tid, ok := strings.CutPrefix(task.Comm, "iou-wrk-"); ok && role(r.task(tid).Comm) == "sl-s" {
				threads[r.task(tid).Comm] = true
			}
		}
		if len(threads) != rings {
			t.Errorf("rings of the send path with workers: %v, want %d", threads, rings)
		}
		next(t, r)
	}
}

// anywhere wants a server that serves and binds nothing, in a process that may use
// some CPUs.
func anywhere(cpus, reason string) check {
	return func(t *testing.T, r *Report) {
		checkReason(t, r, reason)
		mems := "0-1"
		if cpus == cpus0 {
			mems = "0"
		}
		checkThreads(t, r, cpus, mems, func(Task) placed { return placed{cpus, anyPolicy} })
		if len(r.Memory) != 0 {
			t.Errorf("memory with a policy: %v", r.Memory)
		}
		for _, task := range r.Tasks {
			if strings.HasPrefix(task.Comm, "sl-n") {
				t.Errorf("a thread is named %s", task.Comm)
			}
		}
		if !strings.Contains(r.Log, "msg=numa") || strings.Count(r.Log, "msg=numa") != 1 {
			t.Errorf("the log does not say once why there is nothing to do")
		}
	}
}

// refused wants a server that does not start, with exit status 2.
func refused(message string) check {
	return func(t *testing.T, r *Report) {
		if r.Exit != 2 || !strings.Contains(r.Log, message) {
			t.Errorf("exit status %d, want 2 and %q", r.Exit, message)
		}
	}
}

func checkReason(t *testing.T, r *Report, want string) {
	t.Helper()
	if got, _ := dig(r.Status, "numa", "reason").(string); !strings.Contains(got, want) {
		t.Errorf("the reason is %q, want %q", got, want)
	}
}

// checkStatusThreads compares the threads of the status with those there are; cpus
// says where one of a name should be.
func checkStatusThreads(t *testing.T, r *Report, cpus func(name string) string) {
	t.Helper()
	var planned, real []string
	list, _ := dig(r.Status, "numa", "threads").([]any)
	for _, e := range list {
		name, _ := dig(e, "name").(string)
		planned = append(planned, name)
		if got := dig(e, "cpus"); got != cpus(name) {
			t.Errorf("the status has %s on CPUs %v, want %s", name, got, cpus(name))
		}
	}
	for _, task := range r.Tasks {
		if role(task.Comm) == "sl-t" {
			real = append(real, task.Comm)
		}
	}
	slices.Sort(planned)
	slices.Sort(real)
	if !slices.Equal(planned, real) {
		t.Errorf("the status has threads %v, there are %v", planned, real)
	}
}

// checkMemory wants memory under a policy of its own, the threads' buffers, and all
// pages of it on the policy's node.
func checkMemory(t *testing.T, r *Report, policy string) {
	t.Helper()
	_, node, _ := strings.Cut(policy, ":")
	pages := false
	for _, line := range r.Memory {
		if !strings.HasPrefix(line, policy+" ") {
			continue
		}
		for _, f := range strings.Fields(line) {
			if n, count, ok := strings.Cut(f, "="); ok && (n == "N0" || n == "N1") {
				pages = true
				if n != "N"+node {
					t.Errorf("%s pages of memory with policy %s are on %s", count, policy, n)
				}
			}
		}
	}
	if !pages {
		t.Errorf("no page has the policy %s: %v", policy, r.Memory)
	}
}

// checkDevices wants the nodes of the card and the disk as qemu was told.
func checkDevices(t *testing.T, r *Report) {
	t.Helper()
	for list, want := range map[string]string{"interfaces": "eth0:1", "disks": "vda:0"} {
		entries, _ := dig(r.Status, "numa", list).([]any)
		if !slices.ContainsFunc(entries, func(e any) bool { return fmt.Sprint(dig(e, "name"), ":", dig(e, "nodes")) == want }) {
			t.Errorf("no %s among the %s: %v", want, list, entries)
		}
	}
}

// dig follows keys into decoded JSON; nil if there is nothing.
func dig(v any, keys ...string) any {
	for _, k := range keys {
		m, _ := v.(map[string]any)
		v = m[k]
	}
	return v
}
