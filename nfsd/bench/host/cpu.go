package host

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Roles of a server's threads. Those of Sluice are told by their names.
const (
	ServerThreads  = "server threads"
	WaitingThreads = "waiting threads"
	Submitter      = "submitter"
	Workers        = "io_uring workers"
	Other          = "other"
)

// Roles are all roles, in the order to show them in.
var Roles = []string{ServerThreads, WaitingThreads, Submitter, Workers, Other}

var roleNames = []struct {
	role string
	name *regexp.Regexp
}{
	{ServerThreads, regexp.MustCompile(`^sl-(n\d+-)?t\d`)},
	{WaitingThreads, regexp.MustCompile(`^sl-(n\d+-)?w\d`)},
	{Submitter, regexp.MustCompile(`^sl-(n\d+-)?io`)},
	{Workers, regexp.MustCompile(`^iou-wrk-`)}, // the kernel's, threads of the submitter
}

func roleOf(name string) string {
	for _, r := range roleNames {
		if r.name.MatchString(name) {
			return r.role
		}
	}
	return Other
}

// thread is what one thread has used.
type thread struct {
	role string
	cpu  time.Duration
}

// CPU is what a server has used until a moment.
type CPU struct {
	threads map[string]thread // by process and thread
	total   time.Duration     // with threads that have ended
}

// CPU looks at the server's threads.
func (s *Server) CPU() CPU {
	c := CPU{threads: make(map[string]thread)}
	for _, pid := range s.PIDs {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		_, d, _ := parseStat(string(stat))
		c.total += d
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
		for _, dir := range tasks {
			if t, ok := readThread(dir); ok {
				c.threads[dir] = t
			}
		}
	}
	return c
}

// readThread prefers schedstat (Documentation/scheduler/sched-stats.rst), which
// counts nanoseconds, to stat, which counts hundredths of a second.
func readThread(dir string) (thread, bool) {
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return thread{}, false
	}
	name, cpu, err := parseStat(string(stat))
	if err != nil {
		return thread{}, false
	}
	if text, err := os.ReadFile(filepath.Join(dir, "schedstat")); err == nil {
		if first, _, ok := strings.Cut(string(text), " "); ok {
			if ns, err := strconv.ParseInt(first, 10, 64); err == nil && ns > 0 {
				cpu = time.Duration(ns)
			}
		}
	}
	return thread{role: roleOf(name), cpu: cpu}, true
}

// parseStat takes the name and the CPU time, user and system, from a line of
// proc_pid_stat(5). The times count in USER_HZ, which is 100 on every Linux port.
func parseStat(stat string) (name string, cpu time.Duration, err error) {
	open, end := strings.IndexByte(stat, '('), strings.LastIndex(stat, ") ")
	if open < 0 || end < open {
		return "", 0, fmt.Errorf("unexpected stat line %q", stat)
	}
	const utime, stime = 14 - 3, 15 - 3 // fields are counted from 1, and the third is next
	f := strings.Fields(stat[end+2:])
	if len(f) <= stime {
		return "", 0, fmt.Errorf("unexpected stat line %q", stat)
	}
	for _, field := range f[utime : stime+1] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return "", 0, fmt.Errorf("unexpected stat line %q: %w", stat, err)
		}
		cpu += time.Duration(n) * (time.Second / 100)
	}
	return stat[open+1 : end], cpu, nil
}

// Since is the CPU time used since an earlier look, by role; roles that used none
// are left out.
func (c CPU) Since(earlier CPU) map[string]time.Duration {
	used := make(map[string]time.Duration)
	var sum time.Duration
	for id, t := range c.threads {
		if d := t.cpu - earlier.threads[id].cpu; d > 0 {
			used[t.role] += d
			sum += d
		}
	}
	// The total counts in hundredths of a second; what it has beyond their rounding
	// was used by threads that are no more.
	const rounding = 20 * time.Millisecond
	if ended := c.total - earlier.total - sum; ended > rounding {
		used[Other] += ended
	}
	return used
}
