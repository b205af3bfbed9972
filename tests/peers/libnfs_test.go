package peers

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/tests/guest"
)

// commandLimit bounds one run of a client's command.
const commandLimit = 30 * time.Second

// libnfs is a namespace with a server and libnfs's tools as its clients.
type libnfs struct {
	t    *testing.T
	ns   *guest.Namespace
	tree string
}

func newLibnfs(t *testing.T, args ...string) *libnfs {
	t.Helper()
	needTools(t, "nfs-ls", "nfs-cat", "nfs-cp")
	l := &libnfs{t: t, ns: newNamespace(t), tree: bigTree(t)}
	startServer(t, l.ns, exportLine(l.tree), args...)
	return l
}

func (l *libnfs) url(name string) string {
	return fmt.Sprintf("nfs://127.0.0.1%s?version=3&nfsport=%s&mountport=%s", filepath.Join(l.tree, name), port, port)
}

// run returns a command's standard output.
func (l *libnfs) run(name string, args ...string) (string, error) {
	return output(l.ns, name, args...)
}

func output(ns *guest.Namespace, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), commandLimit)
	defer cancel()
	cmd := ns.Command(ctx, name, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, &errs)
	}
	return out.String(), err
}

func TestLibnfsLs(t *testing.T) {
	t.Parallel()
	l := newLibnfs(t)
	for _, dir := range []string{"many", "sizes", "empty", "special"} {
		out, err := l.run("nfs-ls", l.url(dir))
		if err != nil {
			t.Error(err)
			continue
		}
		got := map[string]string{}
		for _, line := range strings.Split(strings.TrimSpace(out), "\n") {
			// mode, links, uid, gid, size, name
			if f := strings.Fields(line); len(f) == 6 {
				got[f[5]] = strings.Join(f[:5], " ")
			}
		}
		compareMaps(t, "nfs-ls "+dir, got, lsLines(t, filepath.Join(l.tree, dir)))
	}
}

// lsType is nfs-ls's letter for a type; it has none for FIFOs and sockets.
var lsType = map[uint32]string{unix.S_IFREG: "-", unix.S_IFDIR: "d", unix.S_IFLNK: "l", unix.S_IFCHR: "c", unix.S_IFBLK: "b"}

// lsLines returns what nfs-ls should say about each entry of dir.
func lsLines(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	lines := map[string]string{}
	for _, e := range entries {
		st := lstat(t, filepath.Join(dir, e.Name()))
		mode := lsType[st.Mode&unix.S_IFMT] + os.FileMode(st.Mode).Perm().String()[1:]
		lines[e.Name()] = fmt.Sprintf("%s %d %d %d %d", mode, st.Nlink, st.Uid, st.Gid, st.Size)
	}
	return lines
}

func TestLibnfsCat(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"splice", "uring", "copy"} {
		t.Run(path, func(t *testing.T) {
			l := newLibnfs(t, "--send-path", path)
			files, err := filepath.Glob(l.tree + "/sizes/*")
			must(t, err)
			files = append(files, l.tree+"/sparse/holes", l.tree+"/links/near")
			for _, file := range files {
				want, err := os.ReadFile(file)
				must(t, err)
				got, err := l.run("nfs-cat", l.url(file[len(l.tree):]))
				if err != nil || got != string(want) {
					t.Errorf("nfs-cat %s: %d bytes, right %v, error %v", file, len(got), got == string(want), err)
				}
			}
		})
	}
}

func TestLibnfsCp(t *testing.T) {
	t.Parallel()
	l := newLibnfs(t)
	const name = "sizes/8388613"
	local := filepath.Join(t.TempDir(), "copy")
	if _, err := l.run("nfs-cp", l.url(name), local); err != nil {
		t.Fatal(err)
	}
	if readFile(t, local) != readFile(t, filepath.Join(l.tree, name)) {
		t.Error("the copy differs")
	}
	_, err := l.run("nfs-cp", local, l.url("upload"))
	if err == nil || !strings.Contains(err.Error(), "NFS3ERR_ROFS") {
		t.Errorf("writing: got %v, want NFS3ERR_ROFS", err)
	}
	if _, err := os.Lstat(filepath.Join(l.tree, "upload")); err == nil {
		t.Error("writing made a file")
	}
}

// TestLibnfsMissing looks for errors of libnfs's own kind, which shows that
// it understood the reply.
func TestLibnfsMissing(t *testing.T) {
	t.Parallel()
	l := newLibnfs(t)
	_, err := l.run("nfs-cat", l.url("sizes/missing"))
	if err == nil || !strings.Contains(err.Error(), "NFS3ERR_NOENT") {
		t.Errorf("a missing file: got %v, want NFS3ERR_NOENT", err)
	}
	_, err = l.run("nfs-ls", l.url("missing"))
	if err == nil || !strings.Contains(err.Error(), "MNT3ERR_NOENT") {
		t.Errorf("a missing directory: got %v, want MNT3ERR_NOENT", err)
	}
	l.tree = "/usr"
	_, err = l.run("nfs-ls", l.url(""))
	if err == nil || !strings.Contains(err.Error(), "MNT3ERR_ACCES") {
		t.Errorf("not exported: got %v, want MNT3ERR_ACCES", err)
	}
}
