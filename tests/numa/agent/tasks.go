package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"sluice/tests/numa"
)

// tasks lists the threads of a process.
func tasks(pid int) ([]numa.Task, error) {
	dir := fmt.Sprintf("/proc/%d/task", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var list []numa.Task
	for _, e := range entries {
		t, err := task(dir + "/" + e.Name())
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, os.ErrProcessDone) {
			continue // ended meanwhile
		}
		if err != nil {
			return nil, err
		}
		list = append(list, t)
	}
	return list, nil
}

// task reads the files of a thread (proc(5)).
func task(dir string) (t numa.Task, err error) {
	status, err := os.ReadFile(dir + "/status")
	if err != nil {
		return t, err
	}
	for line := range strings.Lines(string(status)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":\t")
		switch key {
		case "Name":
			t.Comm = value
		case "Pid":
			t.TID, err = strconv.Atoi(value)
		case "Cpus_allowed_list":
			t.CPUs = value
		case "Mems_allowed_list":
			t.Mems = value
		}
	}
	maps, mapsErr := os.ReadFile(dir + "/numa_maps")
	sched, schedErr := os.ReadFile(dir + "/schedstat")
	if err := errors.Join(err, mapsErr, schedErr); err != nil {
		return t, err
	}
	for line := range strings.Lines(string(maps)) {
		if f := strings.Fields(line); strings.Contains(line, " stack") && len(f) > 1 {
			t.Policy = f[1]
		}
	}
	run, _, _ := strings.Cut(string(sched), " ")
	t.RunNS, err = strconv.ParseInt(run, 10, 64)
	return t, err
}

// boundMemory returns the lines of memory that has a policy of its own.
func boundMemory(pid int) ([]string, error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/numa_maps", pid))
	var lines []string
	for line := range strings.Lines(string(maps)) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !strings.HasPrefix(rest, "default") {
			lines = append(lines, rest)
		}
	}
	return lines, err
}

// ran is how long threads ran between two looks at them, by name.
func ran(before, after []numa.Task) map[string]int64 {
	r := make(map[string]int64)
	for _, t := range after {
		r[t.Comm] += t.RunNS
	}
	for _, t := range before {
		r[t.Comm] -= t.RunNS
	}
	return r
}
