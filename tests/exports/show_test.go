package exports

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// exportfs loads an exports file with the real tool and returns its table: paths
// and clients, as showmount would have them.
func exportfs(t *testing.T, text string) map[string][]string {
	t.Helper()
	if _, err := exec.LookPath("exportfs"); err != nil {
		t.Skip(err)
	}
	nameService(t)
	must(t, os.WriteFile("/etc/exports", []byte(text), 0o644))
	state := value(os.MkdirTemp(scratch, "nfs-"))(t)
	must(t, os.MkdirAll("/var/lib/nfs", 0o755))
	must(t, syscall.Mount(state, "/var/lib/nfs", "", syscall.MS_BIND, ""))
	defer syscall.Unmount("/var/lib/nfs", syscall.MNT_DETACH)
	must(t, os.WriteFile(state+"/etab", nil, 0o644))
	out, err := exec.Command("exportfs", "-ra").CombinedOutput() // fails where there is no nfsd, after writing
	etab := value(os.ReadFile(state + "/etab"))(t)
	if len(etab) == 0 {
		t.Skipf("exportfs writes no table: %v\n%s", err, out)
	}
	list := make(map[string][]string)
	for line := range strings.Lines(string(etab)) {
		path, client, ok := strings.Cut(strings.TrimSpace(line), "\t")
		client, _, _ = strings.Cut(client, "(")
		if !ok {
			t.Fatalf("etab: %q", line)
		}
		list[path] = append(list[path], client)
	}
	return list
}

const showExports = `
%[1]s/a one.lab.test(ro) 10.77.0.0/16(ro) *.lab.test(ro) @trusted(ro)
%[1]s/b *(ro) two(ro)
"%[1]s/c" 2001:db8::/32(ro) 10.77.9.9
%[1]s/a/sub -ro,insecure 10.77.8.1 10.77.8.2(rw)
`

// This machine is shown what exportfs has, others only what they may mount.
func TestShowmount(t *testing.T) {
	dir := tree(t, "a/sub/", "b/", "c/")
	text := fmt.Sprintf(showExports, dir)
	want := exportfs(t, text)
	s := startServer(t, text)
	sorted := func(list map[string][]string) map[string][]string {
		for _, clients := range list {
			slices.Sort(clients)
		}
		return list
	}
	if got := sorted(s.from("127.0.0.1").exportList()); !reflect.DeepEqual(got, sorted(want)) {
		t.Errorf("EXPORT to this machine:\n%v\nexportfs:\n%v", got, want)
	}
	for addr, want := range map[string]map[string][]string{
		"10.77.9.9":   {dir + "/a": {"10.77.0.0/16"}, dir + "/b": {"*"}, dir + "/c": {"10.77.9.9"}},
		"10.77.1.2":   {dir + "/a": {"10.77.0.0/16"}, dir + "/b": {"two.lab.test"}},
		"10.77.8.2":   {dir + "/a": {"10.77.0.0/16"}, dir + "/b": {"*"}, dir + "/a/sub": {"10.77.8.2"}},
		"2001:db8::5": {dir + "/b": {"*"}, dir + "/c": {"2001:db8::/32"}},
	} {
		if got := s.from(addr).exportList(); !reflect.DeepEqual(got, want) {
			t.Errorf("EXPORT to %s: %v, want %v", addr, got, want)
		}
	}
}

// showmount(8) itself, by way of the portmapper on port 111.
func TestShowmountProgram(t *testing.T) {
	if _, err := exec.LookPath("showmount"); err != nil {
		t.Skip(err)
	}
	nameService(t)
	dir := tree(t, "a/sub/", "b/", "c/")
	s := startServer(t, "")
	s.stop()
	must(t, os.WriteFile(s.exports, []byte(fmt.Sprintf(showExports, dir)), 0o644))
	cmd := exec.Command(sluiceBin, "serve", "--exports", s.exports, "--state-dir", filepath.Join(s.dir, "state"),
		"--listen", "127.0.0.1:111", "--rpcbind", "off")
	s.run(cmd)
	out := runCommand(t, "showmount", "-e", "--no-headers", "127.0.0.1")
	for _, want := range []string{dir + "/b", "two.lab.test,*", dir + "/a/sub", "10.77.8.2,10.77.8.1"} {
		if !strings.Contains(out, want) && !strings.Contains(out, reversed(want)) {
			t.Errorf("showmount -e does not show %q:\n%s", want, out)
		}
	}
}

// reversed turns a list round: showmount lists clients from the last.
func reversed(list string) string {
	f := strings.Split(list, ",")
	slices.Reverse(f)
	return strings.Join(f, ",")
}
