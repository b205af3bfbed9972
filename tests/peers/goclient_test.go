package peers

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/willscott/go-nfs-client/nfs"
	"github.com/willscott/go-nfs-client/nfs/rpc"
)

// TestGoClient reads with go-nfs-client, which finds its ports through the
// server's own portmapper on port 111.
func TestGoClient(t *testing.T) {
	t.Parallel()
	tree := bigTree(t)
	ns := newNamespace(t)
	startServer(t, ns, exportLine(tree), "--listen", "0.0.0.0:111")
	if err := ns.Do(func() error { return goClient(tree) }); err != nil {
		t.Error(err)
	}
}

// goClient is everything the client does; it must not call t, as it is not on
// the test's goroutine.
func goClient(tree string) error {
	m, err := nfs.DialMount("127.0.0.1", time.Minute)
	if err != nil {
		return err
	}
	defer m.Close()
	target, err := m.Mount(tree, rpc.NewAuthUnix("peers", 0, 0).Auth())
	if err != nil {
		return err
	}
	defer target.Close()
	info, err := target.FSInfo()
	if err != nil || info.RTMax < 1<<20 || info.RTPref < 1<<20 || info.DTPref == 0 || info.Properties != 0x1b {
		err = errors.Join(err, fmt.Errorf("FSINFO: %+v", info))
		return err
	}
	return errors.Join(
		goClientList(target, tree, "many"),
		goClientList(target, tree, "names"),
		goClientRead(target, tree, "sizes/2097153"),
		goClientAccess(target),
		m.Unmount(),
	)
}

// goClientList compares READDIRPLUS with the directory.
func goClientList(target *nfs.Target, tree, dir string) error {
	entries, err := target.ReadDirPlus(dir)
	if err != nil {
		return fmt.Errorf("READDIRPLUS %s: %w", dir, err)
	}
	seen := map[string]bool{}
	for _, e := range entries {
		if seen[e.Name()] {
			err = errors.Join(err, fmt.Errorf("READDIRPLUS %s: %q twice", dir, e.Name()))
		}
		seen[e.Name()] = true
		info, statErr := os.Lstat(filepath.Join(tree, dir, e.Name()))
		if statErr != nil || !e.Attr.IsSet || !e.Handle.IsSet || !info.IsDir() && e.Size() != info.Size() {
			err = errors.Join(err, fmt.Errorf("READDIRPLUS %s: %+v, but %v", dir, e, statErr))
		}
	}
	want, readErr := os.ReadDir(filepath.Join(tree, dir))
	if len(seen) != len(want) && len(seen) != len(want)+2 { // with . and ..
		err = errors.Join(err, fmt.Errorf("READDIRPLUS %s: %d names of %d", dir, len(seen), len(want)))
	}
	return errors.Join(err, readErr)
}

func goClientRead(target *nfs.Target, tree, name string) error {
	f, err := target.Open(name)
	if err != nil {
		return fmt.Errorf("LOOKUP %s: %w", name, err)
	}
	defer f.Close()
	got, err := io.ReadAll(f)
	if err != nil {
		return fmt.Errorf("READ %s: %w", name, err)
	}
	want, err := os.ReadFile(filepath.Join(tree, name))
	if err == nil && !bytes.Equal(got, want) {
		err = fmt.Errorf("READ %s: %d bytes differ from the file's %d", name, len(got), len(want))
	}
	return err
}

// goClientAccess asks for every bit as root: what does not write is granted.
func goClientAccess(target *nfs.Target) error {
	var err error
	for name, want := range map[string]uint32{"sizes": 0x3, "sizes/1": 0x1, "modes/file-7777": 0x21} {
		got, accessErr := target.Access(name, 0x3f)
		if accessErr != nil || got != want {
			err = errors.Join(err, fmt.Errorf("ACCESS %s: got %#x, want %#x, error %v", name, got, want, accessErr))
		}
	}
	return err
}
