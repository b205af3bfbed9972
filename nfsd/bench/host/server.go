package host

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Server is a server on this machine.
type Server struct {
	Name string // of its program
	PIDs []int  // one process, or the kernel's nfsd threads
}

// FindServer looks for who listens at a TCP address; nil if it is not on this
// machine, or not to be seen by this user.
func FindServer(addr netip.AddrPort) *Server {
	if !IsLocal(addr.Addr()) {
		return nil
	}
	inodes, found := listeners(addr)
	if !found {
		return nil
	}
	if pid := owner(inodes); pid > 0 {
		return &Server{Name: comm(pid), PIDs: []int{pid}}
	}
	// The kernel's own server has sockets but no descriptors.
	if pids := kernelThreads("nfsd"); len(pids) > 0 && os.Geteuid() == 0 {
		return &Server{Name: "nfsd (kernel)", PIDs: pids}
	}
	return nil
}

// IsLocal says whether an address is one of this machine's.
func IsLocal(addr netip.Addr) bool {
	if addr.IsLoopback() {
		return true
	}
	all, _ := net.InterfaceAddrs()
	return slices.ContainsFunc(all, func(a net.Addr) bool {
		p, err := netip.ParsePrefix(a.String())
		return err == nil && p.Addr().Unmap() == addr.Unmap()
	})
}

// listeners are the inode numbers of the sockets that listen at addr or at every
// address.
func listeners(addr netip.AddrPort) (inodes []string, found bool) {
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, err := os.ReadFile(table)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			at, inode, ok := parseListener(line)
			if ok && at.Port() == addr.Port() && (at.Addr().IsUnspecified() || at.Addr() == addr.Addr()) {
				found = true
				inodes = append(inodes, inode)
			}
		}
	}
	return inodes, found
}

// parseListener reads a line of /proc/net/tcp or tcp6 (proc_pid_net(5)); ok is
// false if it is no socket that listens.
func parseListener(line string) (at netip.AddrPort, inode string, ok bool) {
	const stateListen = "0A"
	f := strings.Fields(line)
	if len(f) < 10 || f[3] != stateListen {
		return at, "", false
	}
	a, p, ok := strings.Cut(f[1], ":")
	port, err := strconv.ParseUint(p, 16, 16)
	b, err2 := hex.DecodeString(a)
	if !ok || err != nil || err2 != nil || len(b)%4 != 0 {
		return at, "", false
	}
	// Each 32-bit word is printed as a number in the machine's byte order, which is
	// little-endian on every machine this was tried on.
	for i := 0; i < len(b); i += 4 {
		slices.Reverse(b[i : i+4])
	}
	ip, ok := netip.AddrFromSlice(b)
	return netip.AddrPortFrom(ip.Unmap(), uint16(port)), f[9], ok
}

// owner is the process that has one of the sockets; 0 if none is to be seen.
func owner(inodes []string) int {
	for _, pid := range processes() {
		dir := fmt.Sprintf("/proc/%d/fd", pid)
		fds, _ := os.ReadDir(dir)
		for _, fd := range fds {
			link, _ := os.Readlink(filepath.Join(dir, fd.Name()))
			inode, ok := strings.CutPrefix(link, "socket:[")
			if ok && slices.Contains(inodes, strings.TrimSuffix(inode, "]")) {
				return pid
			}
		}
	}
	return 0
}

func processes() (pids []int) {
	list, _ := os.ReadDir("/proc")
	for _, e := range list {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// comm is a process's name, proc_pid_comm(5).
func comm(pid int) string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return strings.TrimSpace(string(b))
}

// kernelThreads are the kernel's threads of that name: they have no program.
func kernelThreads(name string) (pids []int) {
	for _, pid := range processes() {
		_, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		if comm(pid) == name && errors.Is(err, fs.ErrNotExist) {
			pids = append(pids, pid)
		}
	}
	return pids
}
