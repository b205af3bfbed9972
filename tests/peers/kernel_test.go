package peers

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestKernelTree has the Linux client read the whole tree, and compares each
// attribute and each byte with the original.
func TestKernelTree(t *testing.T) {
	tree := bigTree(t)
	for _, tt := range []struct {
		name, options string
		args          []string
		wantOption    string // in /proc/mounts
		connections   string
	}{
		{"vers=3", "vers=3", nil, "rsize=1048576", "1\n"},
		{"no version given", "rsize=65536", nil, "vers=3", "1\n"}, // falls back from 4.2, 4.1, 4.0
		{"nconnect=8, splice", "vers=3,nconnect=8", []string{"--send-path", "splice"}, "nconnect=8", "8\n"},
		{"nconnect=8, uring", "vers=3,nconnect=8", []string{"--send-path", "uring"}, "nconnect=8", "8\n"},
		{"copy", "vers=3", []string{"--send-path", "copy"}, "rsize=1048576", "1\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := newGuest(t)
			startServer(t, g.Namespace, exportLine(tree), tt.args...)
			out := t.TempDir()
			vars := fmt.Sprintf("tree=%s options=%s out=%s\n", quote(tree), tt.options, out)
			guestScript(t, g, vars+treeScript)
			checkMount(t, out, tt.wantOption)
			if n := readFile(t, filepath.Join(out, "connections")); n != tt.connections {
				t.Errorf("the client has %q connections, want %q", n, tt.connections)
			}
			compareTree(t, tree, out)
		})
	}
}

// findFormat is everything find knows of a file that NFS carries. Names and
// targets may hold any byte but NUL.
const findFormat = `%P\0%y %#m %U %G %s %T@ %n %l\0`

const treeScript = `mnt "$tree" "$options"
grep ' /mnt/n nfs ' /proc/mounts >$out/mounts
cd /mnt/n
ls -lR >$out/ls-lR
find . -printf '` + findFormat + `' >$out/find
stat --printf '%n %t:%T\n' special/char special/block >$out/devices
find . -type f ! -path ./sparse/5g -print0 | xargs -0 sha256sum -z -- >$out/sums
for at in ` + sparseOffsets + `; do
	dd if=sparse/5g iflag=skip_bytes,count_bytes skip=$at count=1M bs=1M 2>/dev/null | sha256sum
done >$out/sparse
# To port 2049, established. Connections beyond the first are made when needed.
awk '$3 ~ /:0801$/ && $4 == "01"' /proc/net/tcp | wc -l >$out/connections
cd /
umount /mnt/n
`

// sparseOffsets are where the tests look at the sparse file: a little before
// each of sparseMarks, and past the end.
const sparseOffsets = "0 2147483000 2147483648 4294967000 4294967296 3000000000 5368705000 5368709120 5368709121"

func checkMount(t *testing.T, out, want string) {
	t.Helper()
	mounts := readFile(t, filepath.Join(out, "mounts"))
	if !strings.Contains(mounts, "vers=3,") || !strings.Contains(mounts, want) {
		t.Errorf("/proc/mounts has no vers=3 or no %s: %s", want, mounts)
	}
}

// compareTree compares what treeScript wrote to out with the tree itself.
func compareTree(t *testing.T, tree, out string) {
	cmd := exec.Command("find", ".", "-printf", findFormat)
	cmd.Dir = tree
	want, err := cmd.Output()
	must(t, err)
	compareMaps(t, "find", pairs(t, readFile(t, filepath.Join(out, "find"))), pairs(t, string(want)))

	sums := make(map[string]string)
	for _, line := range strings.Split(readFile(t, filepath.Join(out, "sums")), "\x00") {
		if sum, name, ok := strings.Cut(line, "  ./"); ok {
			sums[name] = sum
		}
	}
	compareMaps(t, "SHA-256", sums, treeSums(t, tree))

	if got, want := readFile(t, filepath.Join(out, "devices")), "special/char 1:3\nspecial/block 103:11170\n"; got != want {
		t.Errorf("devices: got %q, want %q", got, want)
	}
	if got, want := readFile(t, filepath.Join(out, "sparse")), sparseSums(t, tree); got != want {
		t.Errorf("parts of the sparse file: got\n%s, want\n%s", got, want)
	}
	if n := strings.Count(readFile(t, filepath.Join(out, "ls-lR")), "\n"); n < len(sums) {
		t.Errorf("ls -lR printed %d lines for %d files", n, len(sums))
	}
}

// pairs splits NUL-terminated keys and values.
func pairs(t *testing.T, s string) map[string]string {
	t.Helper()
	parts := strings.Split(s, "\x00")
	m := make(map[string]string)
	for i := 0; i+1 < len(parts); i += 2 {
		if _, ok := m[parts[i]]; ok {
			t.Errorf("%q is listed twice", parts[i])
		}
		m[parts[i]] = parts[i+1]
	}
	return m
}

func compareMaps(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	wrong := 0
	report := func(format string, args ...any) {
		t.Helper()
		if wrong++; wrong <= 10 {
			t.Errorf(format, args...)
		}
	}
	for name, w := range want {
		if g, ok := got[name]; !ok {
			report("%s: %q is missing", what, name)
		} else if g != w {
			report("%s: %q: got %q, want %q", what, name, g, w)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			report("%s: %q should not be there", what, name)
		}
	}
	if wrong > 10 {
		t.Errorf("%s: %d wrong of %d in all", what, wrong, len(want))
	}
}

// treeSums returns the SHA-256 of each file but the sparse one.
func treeSums(t *testing.T, tree string) map[string]string {
	t.Helper()
	sums := make(map[string]string)
	must(t, filepath.WalkDir(tree, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || strings.HasSuffix(path, "/sparse/5g") {
			return err
		}
		data, err := os.ReadFile(path)
		sum := sha256.Sum256(data)
		sums[path[len(tree)+1:]] = hex.EncodeToString(sum[:])
		return err
	}))
	if len(sums) < 10000 {
		t.Errorf("the tree has only %d files", len(sums))
	}
	return sums
}

// sparseSums is what the loop over sparseOffsets in treeScript should print.
func sparseSums(t *testing.T, tree string) string {
	t.Helper()
	f, err := os.Open(filepath.Join(tree, "sparse/5g"))
	must(t, err)
	defer f.Close()
	var b strings.Builder
	for _, field := range strings.Fields(sparseOffsets) {
		var at int64
		fmt.Sscan(field, &at)
		data, err := io.ReadAll(io.NewSectionReader(f, at, 1<<20))
		must(t, err)
		if at < 5<<30 && bytes.Count(data, []byte{0}) == len(data) && at != 3000000000 {
			t.Errorf("the sparse file has no data near %d", at)
		}
		fmt.Fprintf(&b, "%x  -\n", sha256.Sum256(data))
	}
	return b.String()
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	must(t, err)
	return string(data)
}
