package peers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A user is what setpriv makes of root. It keeps root's capabilities until it
// executes a program, so what it executes is always a shell.
type user string

const (
	root     user = ""
	alice    user = "--reuid=1001 --regid=1001 --clear-groups"
	bob      user = "--reuid=1002 --regid=1002 --clear-groups"
	carol    user = "--reuid=1003 --regid=1003 --groups=5001,5002"
	manyGrps user = "--reuid=1004 --regid=1004 --groups=6001,6002,6003,6004,6005,6006,6007,6008,6009,6010,6011,6012,6013,6014,6015,5002"
)

// permissionFiles is made in a directory of root's with mode 0755. Files hold
// their own name, except exec-*, which are programs.
var permissionFiles = []struct {
	name     string // a directory if it ends in a slash
	mode     os.FileMode
	uid, gid int
	acl      string // for setfacl -m
}{
	{"alice-0600", 0o600, 1001, 1001, ""},
	{"alice-0000", 0o000, 1001, 1001, ""},
	{"alice-0044", 0o044, 1001, 1001, ""},
	{"group-0640", 0o640, 0, 5002, ""},
	{"world-0644", 0o644, 0, 0, ""},
	{"root-0600", 0o600, 0, 0, ""},
	{"exec-0711", 0o711, 0, 0, ""},
	{"exec-0700", 0o700, 0, 0, ""},
	{"acl-user", 0o600, 0, 0, "u:1002:r"},
	{"acl-group", 0o600, 0, 0, "g:5001:r"},
	{"acl-mask", 0o600, 0, 0, "u:1002:r,m:-"},
	{"acl-deny", 0o644, 0, 0, "u:1002:-"},
	{"pass-0711/", 0o711, 0, 0, ""},
	{"list-0744/", 0o744, 0, 0, ""},
	{"shut-0700/", 0o700, 1001, 1001, ""},
	{"open-then-shut", 0o600, 1001, 1001, ""},
}

// permissionRows are commands, run in the mount point, that succeed or fail
// alike on the local file system.
var permissionRows = []struct {
	who  user
	cmd  string
	want bool
}{
	{alice, "cat alice-0600", true},
	{bob, "cat alice-0600", false},
	{root, "cat alice-0600", true},
	{root, "cat alice-0000", true},
	{alice, "cat alice-0000", false}, // open(2) asks; reading what is open is another test
	{alice, "cat alice-0044", false}, // owners have the owner's bits only
	{bob, "cat alice-0044", true},
	{carol, "cat group-0640", true},
	{manyGrps, "cat group-0640", true}, // its 16th group, the last that AUTH_SYS has room for
	{bob, "cat group-0640", false},
	{bob, "cat world-0644", true},
	{bob, "cat root-0600", false},
	{bob, "./exec-0711", true}, // the kernel reads it, though bob may not
	{bob, "cat exec-0711", false},
	{bob, "./exec-0700", false},
	{bob, "cat acl-user", true},
	{alice, "cat acl-user", false},
	{carol, "cat acl-group", true},
	{bob, "cat acl-group", false},
	{bob, "cat acl-mask", false},
	{bob, "cat acl-deny", false},
	{alice, "cat acl-deny", true},
	{bob, "cat pass-0711/inside", true},
	{bob, "ls pass-0711", false},
	{bob, "ls list-0744", true},
	{bob, "cat list-0744/inside", false},
	{bob, "ls shut-0700", false},
	{bob, "cat shut-0700/inside", false},
	{alice, "cat shut-0700/inside", true},
}

// squashRows are run below an export with its own squash options.
var squashRows = []struct {
	export string
	who    user
	cmd    string
	want   bool
}{
	{"root_squash", root, "cat root-0600", false},
	{"root_squash", root, "cat world-0644", true},
	{"root_squash", root, "cat alice-0600", false},
	{"root_squash", alice, "cat alice-0600", true},
	{"all_squash,anonuid=1001,anongid=1001", bob, "cat alice-0600", true},
	{"all_squash,anonuid=1001,anongid=1001", root, "cat root-0600", false},
	{"all_squash,anonuid=1002,anongid=5002", alice, "cat group-0640", true},
	{"all_squash,anonuid=1002,anongid=5002", carol, "cat acl-group", false}, // her groups do not count
}

// TestKernelPermissions lets several users of the Linux client read what they
// may, and see that they cannot read what they may not.
func TestKernelPermissions(t *testing.T) {
	t.Parallel()
	needTools(t, "setpriv", "setfacl")
	exports := map[string]string{"no_root_squash": makePermissionDir(t)}
	script := "mnt " + exports["no_root_squash"] + " vers=3 no_root_squash\n"
	lines := exportLine(exports["no_root_squash"])
	for _, r := range squashRows {
		if exports[r.export] == "" {
			dir := makePermissionDir(t)
			exports[r.export] = dir
			lines += "\n" + dir + " *(ro,insecure," + r.export + ")"
			script += fmt.Sprintf("mnt %s vers=3 %s\n", dir, r.export)
		}
	}
	want := map[string]string{}
	for _, r := range permissionRows {
		key, line := permissionCommand("/mnt/no_root_squash", r.who, r.cmd)
		want[key] = fmt.Sprint(r.want)
		script += line
		if got := runsLocally(t, exports["no_root_squash"], r.who, r.cmd); got != r.want {
			t.Errorf("%q as %q on the local file system: success %v, want %v", r.cmd, r.who, got, r.want)
		}
	}
	for _, r := range squashRows {
		key, line := permissionCommand("/mnt/"+r.export, r.who, r.cmd)
		want[key] = fmt.Sprint(r.want)
		script += line
	}
	script += openThenShut(exports["no_root_squash"])
	want["open-then-shut"] = "true"

	g := newGuest(t)
	startServer(t, g.Namespace, lines)
	got := map[string]string{}
	for _, line := range strings.Split(guestScript(t, g, script), "\n") {
		if key, result, ok := strings.Cut(line, "\t"); ok {
			got[key] = result
		}
	}
	compareMaps(t, "success", got, want)
}

// permissionCommand returns shell code that prints key, a tab and whether the
// command succeeded.
func permissionCommand(dir string, who user, cmd string) (key, line string) {
	key = fmt.Sprintf("%s in %s as %s", cmd, dir, who)
	return key, fmt.Sprintf("cd %s; if setpriv %s %s >/dev/null 2>&1; then r=true; else r=false; fi; printf '%%s\\t%%s\\n' %s $r\n",
		dir, who, cmd, quote(key))
}

func runsLocally(t *testing.T, dir string, who user, cmd string) bool {
	t.Helper()
	c := exec.Command("sh", "-c", fmt.Sprintf("setpriv %s sh -c %s", who, quote(cmd)))
	c.Dir = dir
	return c.Run() == nil
}

// openThenShut has alice read a file that she opened before she took all
// permissions from it. Local file systems allow that; an NFS server sees a
// READ by the owner of a file with mode 0000.
func openThenShut(dir string) string {
	read := fmt.Sprintf("exec <open-then-shut; chmod 000 %s/open-then-shut; cat", dir)
	return fmt.Sprintf(`cd /mnt/no_root_squash
if [ "$(setpriv %s sh -c %s)" = open-then-shut ]; then r=true; else r=false; fi
printf 'open-then-shut\t%%s\n' $r
cd /
`, alice, quote(read))
}

// makePermissionDir makes permissionFiles in a new directory.
func makePermissionDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(scratch, "permissions-")
	must(t, err)
	must(t, os.Chmod(dir, 0o755))
	program, err := os.ReadFile("/bin/true")
	must(t, err)
	for _, f := range permissionFiles {
		path := filepath.Join(dir, f.name)
		data := []byte(f.name)
		switch {
		case strings.HasSuffix(f.name, "/"):
			must(t, os.Mkdir(path, 0o700))
			must(t, os.WriteFile(path+"/inside", data, 0o644))
		case strings.HasPrefix(f.name, "exec-"):
			must(t, os.WriteFile(path, program, 0o600))
		default:
			must(t, os.WriteFile(path, data, 0o600))
		}
		must(t, os.Chown(path, f.uid, f.gid))
		must(t, os.Chmod(path, f.mode))
		if f.acl != "" {
			setACL(t, path, f.acl)
		}
	}
	return dir
}

func setACL(t *testing.T, path, acl string) {
	t.Helper()
	out, err := exec.Command("setfacl", "-m", acl, path).CombinedOutput()
	if err != nil && strings.Contains(string(out), "not supported") {
		skip(t, "the file system below %s has no POSIX ACLs", scratch)
	}
	if err != nil {
		t.Fatalf("setfacl: %v: %s", err, out)
	}
}
