package peers

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/tests/guest"
)

// TestCaptureKernel has Wireshark's dissector judge what the server and the
// Linux client say to each other: from NFSv4 refused to writes refused.
func TestCaptureKernel(t *testing.T) {
	t.Parallel()
	tree := bigTree(t)
	g := newGuest(t)
	stop := capture(t, g.Namespace, "tap0")
	startServer(t, g.Namespace, exportLine(tree))
	guestScript(t, g, fmt.Sprintf(`mnt %[1]s rsize=1048576
cd /mnt/n
ls -lR names links special sizes modes >/dev/null
cat sizes/* sparse/holes spread/0*/* >/dev/null
setpriv --reuid=1001 --regid=1001 --clear-groups sh -c 'cat modes/* >/dev/null 2>&1; ls modes/* >/dev/null 2>&1' || true
df . >/dev/null
for c in "touch new" "mkdir new" "mv sizes moved" "rm sizes/1" "ln sizes/1 new" "ln -s a new" "mknod new p" "chmod 0 sizes"; do ! $c; done 2>/dev/null
cd /
umount /mnt/n
mnt %[1]s vers=3,nconnect=4
dd if=/mnt/n/sizes/8388613 of=/dev/null bs=1M 2>/dev/null
umount /mnt/n
`, tree))
	judge(t, stop(), []string{"ACCESS", "CREATE", "FSINFO", "FSSTAT", "GETATTR", "LINK", "LOOKUP", "MKDIR", "MKNOD", "NULL",
		"PATHCONF", "READ", "READDIRPLUS", "READLINK", "REMOVE", "RENAME", "SETATTR", "SYMLINK"})
}

// TestCaptureLibnfs is the same for libnfs, which packs its calls otherwise.
func TestCaptureLibnfs(t *testing.T) {
	t.Parallel()
	needTools(t, "nfs-ls", "nfs-cat")
	ns := newNamespace(t)
	stop := capture(t, ns, "lo")
	l := &libnfs{t: t, ns: ns, tree: bigTree(t)}
	startServer(t, ns, exportLine(l.tree))
	for _, args := range [][]string{{"nfs-ls", l.url("many")}, {"nfs-ls", l.url("names")}, {"nfs-cat", l.url("sizes/8388613")}, {"nfs-cat", l.url("links/near")}} {
		_, err := l.run(args[0], args[1:]...)
		must(t, err)
	}
	judge(t, stop(), []string{"ACCESS", "FSINFO", "GETATTR", "LOOKUP", "READ", "READDIRPLUS", "READLINK"})
}

// capture records a device until the returned function is called, which
// returns the file.
func capture(t *testing.T, ns *guest.Namespace, device string) (stop func() string) {
	t.Helper()
	needTools(t, "dumpcap", "tshark")
	file := filepath.Join(t.TempDir(), "pcapng")
	// 64 MiB of buffer, so that the kernel drops nothing of a burst.
	p, err := ns.Start(nil, "dumpcap", "-q", "-B", "64", "-i", device, "-f", "tcp port "+port, "-w", file)
	must(t, err)
	t.Cleanup(p.Kill)
	must(t, p.WaitFor("File:", readyLimit))
	return func() string {
		t.Helper()
		time.Sleep(500 * time.Millisecond) // dumpcap reads in intervals
		must(t, p.Stop(stopLimit))
		if log := p.Log.String(); !strings.Contains(log, "(100.0%)") {
			t.Fatalf("dumpcap dropped packets:\n%s", log)
		}
		return file
	}
}

// judge fails the test if tshark finds something malformed in the file, or a
// call without exactly one reply, or if a procedure of want was never called.
func judge(t *testing.T, file string, want []string) {
	t.Helper()
	// What TCP sends twice (window probes to a guest that is slow to read, say)
	// cannot be reassembled again; that is no fault of the message in it.
	if bad := tshark(t, file, "-Y", "_ws.malformed && !(tcp.analysis.retransmission || tcp.analysis.keep_alive || tcp.analysis.zero_window_probe)"); bad != "" {
		t.Errorf("malformed packets:\n%s", bad)
	}
	calls, replies := map[string]int{}, map[string]int{}
	for _, line := range strings.Split(tshark(t, file, "-Y", "rpc", "-T", "fields", "-e", "tcp.stream", "-e", "rpc.msgtyp", "-e", "rpc.xid"), "\n") {
		countMessages(t, line, calls, replies)
	}
	if len(calls) < 50 {
		t.Errorf("only %d calls in the capture", len(calls))
	}
	for id := range calls {
		if calls[id] != 1 || replies[id] != 1 {
			t.Errorf("stream and xid %s: %d calls, %d replies", id, calls[id], replies[id])
		}
	}
	for id := range replies {
		if calls[id] == 0 {
			t.Errorf("stream and xid %s: a reply without a call", id)
		}
	}
	info := tshark(t, file, "-Y", "nfs && rpc.msgtyp == 0", "-T", "fields", "-e", "_ws.col.Info")
	for _, proc := range want {
		if !strings.Contains(info, "V3 "+proc+" Call") {
			t.Errorf("%s was never called", proc)
		}
	}
	t.Logf("%d calls, each with one reply", len(calls))
}

// countMessages counts the RPC messages of one packet, printed as its stream,
// message types (0 call, 1 reply) and transaction ids, with commas between
// those of several messages.
func countMessages(t *testing.T, line string, calls, replies map[string]int) {
	t.Helper()
	if line == "" {
		return
	}
	f := strings.Split(line, "\t")
	types, xids := strings.Split(f[1], ","), strings.Split(f[2], ",")
	if len(types) != len(xids) {
		t.Fatalf("tshark printed %q", line)
	}
	for i, typ := range types {
		if id := f[0] + " " + xids[i]; typ == "0" {
			calls[id]++
		} else {
			replies[id]++
		}
	}
}

func tshark(t *testing.T, file string, args ...string) string {
	t.Helper()
	args = append([]string{"-n", "-r", file, "-d", "tcp.port==" + port + ",rpc"}, args...)
	out, err := exec.Command("tshark", args...).Output() // as root it warns on standard error
	must(t, err)
	return strings.TrimSpace(string(out))
}
