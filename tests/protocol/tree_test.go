package protocol

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// The tree that most tests use, below scratch/tree. Every directory directly
// below it is an export, with the options in sharedExports.
const (
	helloText = "hello, world\n"
	bigSize   = 3<<20 + 5
	owner     = 1000 // owns what is not root's
	team      = 3000 // a group
)

func treePath(elem ...string) string {
	return filepath.Join(append([]string{scratch, "tree"}, elem...)...)
}

// sharedExports are the exports of the shared server.
func sharedExports() string {
	return fmt.Sprintf(`%[1]s/pub *(ro,insecure,no_root_squash,no_subtree_check)
%[1]s/squash *(ro,insecure,root_squash,no_subtree_check)
%[1]s/anon *(ro,insecure,root_squash,anonuid=%[2]d,anongid=%[3]d,no_subtree_check)
%[1]s/all *(ro,insecure,all_squash,anonuid=%[2]d,anongid=%[3]d,no_subtree_check)
%[1]s/secure *(ro,secure,no_root_squash,no_subtree_check)
%[1]s/none *(ro,insecure,sec=none:sys,no_subtree_check)
%[1]s/rw *(rw,insecure,no_root_squash,no_subtree_check)
%[1]s/foreign 192.0.2.1(ro,insecure,no_subtree_check)
%[1]s/hosts 127.0.0.0/8(ro,insecure,no_subtree_check) 192.0.2.7(ro,no_subtree_check)
`, treePath(), owner, team)
}

var exportNames = []string{"pub", "squash", "anon", "all", "secure", "none", "rw", "foreign", "hosts"}

// pattern is the content of the file big: every offset is recognizable.
func pattern(off, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		x := off + i
		b[i] = byte(x ^ x>>8 ^ x>>16)
	}
	return b
}

var makeTree = sync.OnceValue(func() error {
	for _, name := range exportNames {
		if err := os.MkdirAll(treePath(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(treePath(name, "hello"), []byte(helloText), 0o644); err != nil {
			return err
		}
	}
	steps := []func() error{makeFiles, makeOwned, makeSpecial}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
})

func makeFiles() error {
	files := map[string][]byte{"empty": nil, "big": pattern(0, bigSize), "dir/inner": []byte("inner"), "dir/sub/deep": []byte("deep")}
	for _, dir := range []string{"dir/sub", "bare", "closed/below"} {
		if err := os.MkdirAll(treePath("pub", dir), 0o755); err != nil {
			return err
		}
	}
	for name, data := range files {
		if err := os.WriteFile(treePath("pub", name), data, 0o644); err != nil {
			return err
		}
	}
	if err := os.Chmod(treePath("pub", "closed"), 0o700); err != nil {
		return err
	}
	return os.Symlink("hello", treePath("pub", "link"))
}

// makeOwned makes files with owners and modes.
func makeOwned() error {
	if os.Geteuid() != 0 {
		return nil
	}
	for _, f := range []struct {
		name     string
		mode     os.FileMode
		uid, gid int
	}{
		{"mode000", 0o000, owner, owner},
		{"execonly", 0o111, 0, 0},
		{"ownerwrite", 0o200, owner, owner},
		{"teamread", 0o640, 0, team},
		{"secret", 0o600, 0, 0},
		{"program", 0o755, owner, owner},
		{"grouponly", 0o070, 0, owner}, // group may, others may not
	} {
		for _, export := range []string{"pub", "squash", "anon", "all"} {
			p := treePath(export, f.name)
			if err := os.WriteFile(p, []byte(helloText), 0o600); err != nil {
				return err
			}
			if err := os.Chown(p, f.uid, f.gid); err != nil {
				return err
			}
			if err := os.Chmod(p, f.mode); err != nil {
				return err
			}
		}
	}
	return os.Mkdir(treePath("pub", "listonly"), 0o744)
}

// makeSpecial makes what is neither file, directory nor link.
func makeSpecial() error {
	if os.Geteuid() != 0 {
		return nil
	}
	for name, n := range map[string]struct {
		mode uint32
		dev  int
	}{
		"fifo": {syscall.S_IFIFO | 0o666, 0},
		"sock": {syscall.S_IFSOCK | 0o666, 0},
		"chr":  {syscall.S_IFCHR | 0o666, 1<<8 | 5}, // 1:5, the zero device
		"blk":  {syscall.S_IFBLK | 0o660, 7 << 8},   // 7:0, a loop device
	} {
		if err := syscall.Mknod(treePath("pub", name), n.mode, n.dev); err != nil {
			return fmt.Errorf("mknod %s: %w", name, err)
		}
	}
	return nil
}

var shared struct {
	mu  sync.Mutex
	srv *server
}

// sharedServer returns the server that most tests use.
func sharedServer(t testing.TB) *server {
	t.Helper()
	must(t, makeTree())
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.srv == nil {
		s := newServer(t, sharedExports())
		must(t, s.start("127.0.0.1:0"))
		shared.srv = s
	}
	return shared.srv
}

// stopShared is the gate at the end: after all that the tests did to it, the
// shared server must hold no pipe and no connection, and end well.
func stopShared() error {
	s := shared.srv
	if s == nil {
		return nil
	}
	err := s.awaitIdle(0)
	if err2 := s.stop(); err == nil {
		err = err2
	}
	return err
}
