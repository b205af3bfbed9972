package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"sluice/tests/guest"
	"sluice/tests/pattern"
)

// (That dd survives two kills is a test of tests/peers, too.)
var kernelFaults = []fault{{"kernel", "the Linux client, mounted hard, dd running: SIGKILL, SIGTERM, SIGUSR2 in turn", kernelRestarts}}

const (
	guestPort   = "2049"
	guestLimit  = 5 * time.Minute
	guestScript = `set -eu
mkdir -p /mnt/n
mount -t nfs -o tcp,nolock,port=%[1]s,mountport=%[1]s,vers=3,hard %[2]s:%[3]s /mnt/n
exec 3</mnt/n/f
dd bs=1M status=none <&3 | for i in $(seq %[4]d); do
	dd bs=1M count=16 iflag=fullblock status=none
	echo "got $i." >/dev/tty1
	sleep 0.1
done | sha256sum
stat -c 'again %%s' /mnt/n/f
`
)

// kernelRestarts: dd gets every byte, in order, and no error.
func kernelRestarts(t *trial) {
	dir := t.path("data") // the guest's namespace has no mounts that come later
	t.must(os.Mkdir(dir, 0o755))
	g, err := guest.New(guest.Options{MemMiB: 256})
	if errors.Is(err, guest.ErrUnavailable) {
		t.skipf("%v", err)
	}
	t.must(err)
	t.after(func() { _ = g.Close() })
	parts := 10
	if t.long > 3*time.Second {
		parts = 40
	}
	size := int64(parts) * 16 << 20
	seed := t.rnd.Uint64()
	t.must(pattern.WriteFile(dir+"/f", seed, size))
	s := t.newServer(export(dir, "fsid=1"))
	s.command = func(argv []string) *exec.Cmd { return g.Command(context.Background(), argv[0], argv[1:]...) }
	t.must(s.start("0.0.0.0:" + guestPort))

	ctx, cancel := context.WithTimeout(context.Background(), guestLimit)
	defer cancel()
	console := new(guest.Log)
	done := make(chan struct{})
	var res guest.Result
	go func() {
		defer close(done)
		script := fmt.Sprintf(guestScript, guestPort, guest.ServerIP, dir, parts)
		res, err = g.Run(ctx, script, console)
		cancel()
	}()
	for i := 1; i < parts-1; i += 3 {
		if console.WaitFor(ctx, fmt.Sprintf("got %d.", i)) != nil {
			break
		}
		switch i % 9 {
		case 1:
			s.kill()
			t.must(s.start(s.addr))
		case 4:
			s.terminate()
			t.must(s.start(s.addr))
		default:
			s.handOver()
		}
		t.tried.Add(1)
	}
	<-done
	t.must(err)
	want := fmt.Sprintf("%x  -\nagain %d\n", sumOf(seed, size), size)
	if res.Code != 0 || !strings.HasSuffix(res.Output, want) {
		t.errorf("exit status %d, output %q, want it to end in %q", res.Code, res.Output, want)
	}
	t.checked.Add(size)
}

// kill and terminate end the process that serves, whoever started it.
func (s *server) kill() { s.end(syscall.SIGKILL) }

func (s *server) terminate() { s.end(syscall.SIGTERM) }

func (s *server) end(sig syscall.Signal) {
	pid := int(s.pid.Load())
	_ = syscall.Kill(pid, sig)
	if !eventually(stopLimit, func() bool { return s.gone(pid) }) {
		s.t.errorf("the server does not end at signal %d", sig)
	}
}

func sumOf(seed uint64, size int64) []byte {
	h := sha256.New()
	b := make([]byte, 1<<20)
	for off := int64(0); off < size; off += int64(len(b)) {
		pattern.Fill(b, seed, off)
		h.Write(b)
	}
	return h.Sum(nil)
}
