package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// What a service manager sees of the server, with the suite in its place.
var serviceFaults = []fault{
	{"service", "SIGKILL while somebody else holds the sockets and clients connect", activated},
	{"service", "READY, RELOADING, WATCHDOG, MAINPID, STOPPING are told", notified},
	{"service", "privileges of every thread", dropped},
}

// activated: a socket of systemd (sd_listen_fds(3)) outlives the server, so no
// client is refused.
func activated(t *trial) {
	dir := t.tmpfs("data")
	l := get(net.Listen("tcp", "127.0.0.1:0"))(t).(*net.TCPListener)
	t.after(func() { l.Close() })
	s := t.newServer(export(dir, "fsid=1"))
	s.command = func(argv []string) *exec.Cmd {
		// LISTEN_PID is the process itself, which the shell knows before it is one.
		cmd := exec.Command("sh", append([]string{"-c", `LISTEN_FDS=1 LISTEN_PID=$$ exec "$@"`, "sh"}, argv...)...)
		cmd.ExtraFiles = []*os.File{get(l.File())(t)}
		return cmd
	}
	t.must(s.start("127.0.0.1:1")) // not what it listens on
	if s.addr != l.Addr().String() {
		t.fatalf("the server listens on %s, not on the socket that it was given", s.addr)
	}
	var stop atomic.Bool
	var lost atomic.Int64
	var connecting sync.WaitGroup
	for range 3 {
		connecting.Go(func() {
			for !stop.Load() {
				t.tried.Add(1)
				err := pingOnce(s.addr)
				switch {
				case errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET):
					lost.Add(1) // it was taken, and then its server was killed
				case err != nil:
					t.errorf("while the server is killed: %w", err)
				}
			}
		})
	}
	kills := 0
	for ctx := t.until(); ctx.Err() == nil || kills < 3; kills++ {
		time.Sleep(100 * time.Millisecond)
		s.proc.kill()
		t.must(s.start("127.0.0.1:1"))
	}
	stop.Store(true)
	connecting.Wait()
	t.notef("%d kills, %d connections lost in mid-call, none refused", kills, lost.Load())
}

// manager is the other end of sd_notify(3).
type manager struct {
	t    *trial
	conn *net.UnixConn
}

func (m *manager) expect(want string) {
	m.t.tried.Add(1)
	b := make([]byte, 4096)
	for deadline := time.Now().Add(readyLimit); ; {
		m.conn.SetReadDeadline(deadline)
		n, err := m.conn.Read(b)
		if err != nil {
			m.t.fatalf("the service manager is not told %q: %w", want, err)
		}
		if strings.HasPrefix(string(b[:n]), want) {
			return
		}
	}
}

func notified(t *trial) {
	dir := t.tmpfs("data")
	path := t.path("notify")
	m := &manager{t, get(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"}))(t)}
	t.after(func() { m.conn.Close() })
	s := t.newServer(export(dir, "fsid=1"))
	s.command = func(argv []string) *exec.Cmd {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+path, "WATCHDOG_USEC=200000")
		return cmd
	}
	t.must(s.start("127.0.0.1:0"))
	m.expect("READY=1")
	m.expect("WATCHDOG=1")
	s.signal(syscall.SIGHUP)
	m.expect("RELOADING=1\nMONOTONIC_USEC=")
	m.expect("READY=1")
	s.handOver()
	m.expect(fmt.Sprintf("MAINPID=%d", s.pid.Load()))
	m.expect("WATCHDOG=1") // by the new process
	s.signal(syscall.SIGTERM)
	m.expect("STOPPING=1")
}

// kept is the mask of the capabilities that serving takes (linux/capability.h):
// DAC_READ_SEARCH, FOWNER, SETGID, SETUID, NET_BIND_SERVICE, SYS_ADMIN.
const kept = 1<<2 | 1<<3 | 1<<6 | 1<<7 | 1<<10 | 1<<21

// dropped: no thread of the server can get more than it needs, while it works and
// after a hand-over.
func dropped(t *trial) {
	dir := t.tmpfs("data")
	s := t.serve(export(dir, "fsid=1"))
	r := t.startReaders(s, t.makeSource(s, dir, "f", 8<<20), 2, true)
	s.checkPrivileges()
	s.handOver()
	s.checkPrivileges()
	r.stop()
}

func (s *server) checkPrivileges() {
	tasks := get(filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", s.pid.Load())))(s.t)
	for _, task := range tasks {
		b, err := os.ReadFile(task)
		if err != nil {
			continue // the thread has ended
		}
		s.t.tried.Add(1)
		for line := range strings.Lines(string(b)) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":\t")
			mask, _ := strconv.ParseUint(value, 16, 64)
			switch name {
			case "NoNewPrivs":
				if value != "1" {
					s.t.errorf("%s: new privileges are possible", task)
				}
			case "CapPrm", "CapEff", "CapBnd", "CapInh", "CapAmb":
				if mask&^kept != 0 {
					s.t.errorf("%s: %s is %#x, more than %#x", task, name, mask, uint64(kept))
				}
			}
		}
	}
}
