package nfsd

import (
	"bytes"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// mount is a line of /proc/self/mountinfo (proc_pid_mountinfo(5)).
type mount struct {
	id, parent uint64
	// root is the part of the file system that is mounted, path where.
	root, path string
	fstype     string
}

// whole says that the mount shows its file system from the top.
func (m *mount) whole() bool { return m != nil && m.root == "/" }

// mountTable is what is mounted where, as this process sees it. It does not
// change.
type mountTable struct {
	byPath map[string]*mount // the topmost where several are stacked
	byID   map[uint64]*mount
}

// readMounts reads the table. Without /proc it is empty: then no mount is
// crossed, and none is known to be missing.
func readMounts() *mountTable {
	b, _ := os.ReadFile("/proc/self/mountinfo")
	return parseMounts(b)
}

func parseMounts(b []byte) *mountTable {
	t := &mountTable{byPath: make(map[string]*mount), byID: make(map[uint64]*mount)}
	for line := range bytes.Lines(b) {
		if m := parseMount(string(line)); m != nil {
			t.byPath[m.path] = m // the last one is on top
			t.byID[m.id] = m
		}
	}
	return t
}

// parseMount reads one line; nil for what is not one.
func parseMount(line string) *mount {
	f := strings.Fields(line)
	if len(f) < 6 {
		return nil
	}
	id, err1 := strconv.ParseUint(f[0], 10, 64)
	parent, err2 := strconv.ParseUint(f[1], 10, 64)
	if err1 != nil || err2 != nil {
		return nil
	}
	m := &mount{id: id, parent: parent, root: unescapeOctal(f[3]), path: unescapeOctal(f[4])}
	if i := slices.Index(f, "-"); i > 0 && i+1 < len(f) { // behind optional fields
		m.fstype = f[i+1]
	}
	return m
}

// unescapeOctal undoes what mangle_path (fs/seq_file.c) does to white space,
// backslash and '#'.
func unescapeOctal(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+4 <= len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// changedSince returns the paths where something else is mounted now.
func (t *mountTable) changedSince(old *mountTable) map[string]bool {
	changed := make(map[string]bool)
	for p, m := range t.byPath {
		if o := old.byPath[p]; o == nil || *o != *m {
			changed[p] = true
		}
	}
	for p := range old.byPath {
		if t.byPath[p] == nil {
			changed[p] = true
		}
	}
	return changed
}

// upwards yields p and every directory above it.
func upwards(p string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for strings.HasPrefix(p, "/") {
			if !yield(p) || p == "/" {
				return
			}
			p = path.Dir(p)
		}
	}
}

// affects says whether a change of mounts may make p lead elsewhere.
func affects(changed map[string]bool, p string) bool {
	if len(changed) == 0 {
		return false
	}
	for q := range upwards(p) {
		if changed[q] {
			return true
		}
	}
	return false
}
