package peers

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/tests/guest"
)

// restartScript has one dd read a file at a pace that the test can follow:
// the reader of the pipe takes 16 MiB at a time and says so.
const restartScript = `mnt %s vers=3,hard
dd if=/mnt/n/data bs=1M status=none | for i in $(seq 16); do
	dd bs=1M count=16 iflag=fullblock status=none
	echo "got $i." >/dev/tty1
	sleep 0.1
done | sha256sum
`

// TestKernelServerRestart kills the server in the middle of a dd, twice; the
// client waits and must get every byte from the next server, with the file
// handle that it has.
func TestKernelServerRestart(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp(scratch, "restart-")
	must(t, err)
	data := make([]byte, 256<<20)
	newRandom(2).Read(data)
	must(t, os.WriteFile(filepath.Join(dir, "data"), data, 0o644))
	want := fmt.Sprintf("%x  -\n", sha256.Sum256(data))

	g := newGuest(t)
	s := startServer(t, g.Namespace, exportLine(dir))
	ctx, cancel := context.WithTimeout(context.Background(), bootLimit)
	defer cancel()
	console := new(guest.Log)
	done := make(chan struct{})
	var res guest.Result
	go func() {
		defer close(done)
		res, err = g.Run(ctx, scriptHead+fmt.Sprintf(restartScript, dir), console)
	}()
	for _, at := range []string{"got 3.", "got 9."} {
		waitFor(t, console, done, at)
		s.restart(time.Second)
		if strings.Contains(console.String(), "got 16.") {
			t.Error("dd had ended before the server was back")
		}
	}
	<-done
	must(t, err)
	if res.Code != 0 || !strings.HasSuffix(res.Output, want) {
		t.Errorf("exit status %d, output %q, want it to end in %q", res.Code, res.Output, want)
	}
}

// waitFor waits for text on the console, or for the guest's end.
func waitFor(t *testing.T, console *guest.Log, done <-chan struct{}, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	go func() {
		select {
		case <-done:
			cancel()
		case <-ctx.Done():
		}
	}()
	must(t, console.WaitFor(ctx, text))
}
