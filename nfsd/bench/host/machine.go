package host

import (
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Machine describes this machine for a report.
type Machine struct {
	Kernel     string `json:"kernel"`
	OS         string `json:"os"`
	CPU        string `json:"cpu"`
	CPUs       int    `json:"cpus"`
	MemoryMiB  uint64 `json:"memory_mib"`
	Congestion string `json:"congestion_control"` // of TCP, the default
	Load       string `json:"load"`               // averages of 1, 5 and 15 minutes
}

// Describe looks at the machine as it is now.
func Describe() Machine {
	m := Machine{CPUs: runtime.NumCPU(), CPU: field("/proc/cpuinfo", "model name", ":"),
		OS: strings.Trim(field("/etc/os-release", "PRETTY_NAME", "="), `"`)}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		m.Kernel = unix.ByteSliceToString(u.Release[:]) + " " + unix.ByteSliceToString(u.Machine[:])
	}
	var s unix.Sysinfo_t
	if unix.Sysinfo(&s) == nil {
		m.MemoryMiB = s.Totalram * uint64(s.Unit) >> 20
	}
	cc, _ := os.ReadFile("/proc/sys/net/ipv4/tcp_congestion_control")
	m.Congestion = strings.TrimSpace(string(cc))
	load, _ := os.ReadFile("/proc/loadavg")
	if f := strings.Fields(string(load)); len(f) >= 3 {
		m.Load = strings.Join(f[:3], " ")
	}
	return m
}

// field is the value of the first line that begins with name and has sep next.
func field(file, name, sep string) string {
	text, _ := os.ReadFile(file)
	for line := range strings.Lines(string(text)) {
		key, value, ok := strings.Cut(line, sep)
		if ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
