package peers

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/tests/guest"
)

// startRpcbind runs Debian's rpcbind in the namespace.
func startRpcbind(t *testing.T, ns *guest.Namespace) {
	t.Helper()
	needTools(t, "rpcbind", "rpcinfo", "showmount")
	p, err := ns.Start(nil, "rpcbind", "-f")
	must(t, err)
	t.Cleanup(p.Kill)
	for range 100 {
		if _, err = output(ns, "rpcinfo", "-p", "127.0.0.1"); err == nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("rpcbind does not answer: %v\n%s", err, p.Log)
}

var spaces = regexp.MustCompile(`[ \t]+`)

// rpcinfo returns the lines of rpcinfo -p without the portmapper's own, each
// "program version protocol port".
func rpcinfo(t *testing.T, ns *guest.Namespace) []string {
	t.Helper()
	out, err := output(ns, "rpcinfo", "-p", "127.0.0.1")
	must(t, err)
	var lines []string
	for _, line := range strings.Split(out, "\n") {
		f := strings.Fields(line)
		if len(f) >= 4 && f[0] != "program" && f[0] != "100000" {
			lines = append(lines, strings.Join(f[:4], " "))
		}
	}
	slices.Sort(lines)
	return lines
}

// registered is what a server on port has to register: MOUNT in the versions
// that showmount and umount use, and NFS over TCP only.
var registered = []string{"100003 3 tcp 2049", "100005 1 tcp 2049", "100005 1 udp 2049", "100005 3 tcp 2049", "100005 3 udp 2049"}

// TestRpcbind has the server register with a real rpcbind, and asks for it
// through that.
func TestRpcbind(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startRpcbind(t, ns)
	dir, other := t.TempDir(), t.TempDir()
	s := startServer(t, ns, exportLine(dir)+"\n"+other+" 192.0.2.0/24(ro)")
	waitRegistered(t, ns, registered)
	for _, args := range []string{"-t 127.0.0.1 nfs", "-t 127.0.0.1 nfs 3", "-t 127.0.0.1 mountd 1", "-t 127.0.0.1 mountd 3", "-u 127.0.0.1 mountd 3"} {
		if out, err := output(ns, "rpcinfo", strings.Fields(args)...); err != nil || !strings.Contains(out, "ready and waiting") {
			t.Errorf("rpcinfo %s: %v: %s", args, err, out)
		}
	}
	showmountLists(t, ns, dir, other)

	// One that died without a word must not stop the next from registering.
	s.restart(0)
	waitRegistered(t, ns, registered)
	must(t, s.proc.Stop(stopLimit))
	waitRegistered(t, ns, nil)
	s.start()
}

// waitRegistered waits until rpcinfo lists all of want, or nothing of ours if
// want is empty.
func waitRegistered(t *testing.T, ns *guest.Namespace, want []string) {
	t.Helper()
	var got []string
	for range 60 {
		got = rpcinfo(t, ns)
		missing := slices.ContainsFunc(want, func(w string) bool { return !slices.Contains(got, w) })
		if !missing && (len(want) > 0 || len(got) == 0) {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	for _, w := range want {
		if !slices.Contains(got, w) {
			t.Errorf("rpcinfo -p lacks %q; it lists %q", w, got)
		}
	}
	if len(want) == 0 && len(got) > 0 {
		t.Errorf("rpcinfo -p still lists %q", got)
	}
	for _, g := range got {
		if strings.HasPrefix(g, "100003 3 udp") || strings.HasPrefix(g, "100227") {
			t.Errorf("rpcinfo -p lists %q, which is not served", g)
		}
	}
}

// showmountLists checks what showmount prints of exports and clients.
func showmountLists(t *testing.T, ns *guest.Namespace, dir, other string) {
	t.Helper()
	out, err := output(ns, "showmount", "--no-headers", "-e", "127.0.0.1")
	out = spaces.ReplaceAllString(out, " ")
	if err != nil || !hasLine(out, dir+" *") || !hasLine(out, other+" 192.0.2.0/24") {
		t.Errorf("showmount -e: %v: %q", err, out)
	}
	if !mountProc(t, ns, 1, dir) {
		return
	}
	for flag, want := range map[string]string{"-a": "127.0.0.1:" + dir, "-d": dir} {
		if out, err := output(ns, "showmount", "--no-headers", flag, "127.0.0.1"); err != nil || !hasLine(out, want) {
			t.Errorf("showmount %s after MNT: %v: %q, want a line %q", flag, err, out, want)
		}
	}
	mountProc(t, ns, 3, dir)
	if out, err := output(ns, "showmount", "--no-headers", "-a", "127.0.0.1"); err != nil || strings.Contains(out, dir) {
		t.Errorf("showmount -a after UMNT: %v: %q", err, out)
	}
}

func hasLine(text, line string) bool {
	return slices.ContainsFunc(strings.Split(text, "\n"), func(l string) bool { return strings.TrimSpace(l) == line })
}

// mountProc calls MNT (1) or UMNT (3) for dir and reports whether it worked.
func mountProc(t *testing.T, ns *guest.Namespace, proc uint32, dir string) bool {
	t.Helper()
	c := dialWire(t, ns, "127.0.0.1:"+port)
	r, err := c.call(progMount, 3, proc, rootCred, new(enc).str(dir).b)
	if err != nil || r.accept != 0 || proc == 1 && !strings.HasPrefix(string(r.body), "\x00\x00\x00\x00") {
		t.Errorf("MOUNT procedure %d for %s: %+v, %v", proc, dir, r, err)
		return false
	}
	return true
}

// TestOwnPortmapper has the tools ask the server itself on port 111.
func TestOwnPortmapper(t *testing.T) {
	t.Parallel()
	needTools(t, "rpcinfo", "showmount")
	ns := newNamespace(t)
	dir, other := t.TempDir(), t.TempDir()
	startServer(t, ns, exportLine(dir)+"\n"+other+" 192.0.2.0/24(ro)", "--listen", "0.0.0.0:111", "--rpcbind", "off")
	waitRegistered(t, ns, registered)
	showmountLists(t, ns, dir, other)
}

// negotiations are what mount.nfs tries when told little, with the server's
// own portmapper on port 111, and what it has to end with.
var negotiations = []struct {
	options string
	ok      bool
	want    string // in mount's messages or /proc/mounts
}{
	{"nolock", true, "vers=4.2"}, // in the messages: it began with that
	{"nolock", true, "vers=3,"},
	{"nolock,vers=3", true, "prog 100005, trying vers=3, prot=17"},
	{"nolock,vers=3,mountproto=tcp", true, "mountproto=tcp"},
	{"nolock,vers=3,tcp", true, "prog 100003, trying vers=3, prot=6"},
	{"nolock,vers=3,rsize=65536,nconnect=4", true, "nconnect=4"},
	{"nolock,vers=3,mountvers=3", true, "mountvers=3"},
	{"vers=4", false, "Protocol not supported"},
	{"vers=4.1", false, "Protocol not supported"},
	{"nolock,vers=2", false, ""},
}

// TestKernelMountNegotiation mounts with the options that users type.
func TestKernelMountNegotiation(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp(scratch, "negotiate-")
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "here"), nil, 0o644))
	g := newGuest(t)
	startServer(t, g.Namespace, exportLine(dir), "--listen", "0.0.0.0:111")
	script := ""
	for _, n := range negotiations {
		script += fmt.Sprintf("mkdir -p /mnt/n; echo '@@'; if timeout 20 mount -v -t nfs -o %s %s:%s /mnt/n 2>&1; then "+
			"grep ' /mnt/n nfs' /proc/mounts; ls /mnt/n/here && echo MOUNTED; umount /mnt/n; fi\n", n.options, guest.ServerIP, dir)
	}
	parts := strings.Split(guestScript(t, g, script), "@@\n")[1:]
	if len(parts) != len(negotiations) {
		t.Fatalf("%d results for %d mounts", len(parts), len(negotiations))
	}
	for i, n := range negotiations {
		if ok := strings.Contains(parts[i], "MOUNTED"); ok != n.ok || !strings.Contains(parts[i], n.want) {
			t.Errorf("mount -o %s: mounted %v, want %v and %q in\n%s", n.options, ok, n.ok, n.want, parts[i])
		}
	}
}
