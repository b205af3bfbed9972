package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"sluice/tests/protocol/wire"
)

// An attacker who is a client and has an account on the server too: he changes
// the exported tree as he likes, and calls what he likes. Outside the export is
// a file with a text that must never come over the wire.
var escapeFaults = []fault{
	{"escape", "a directory that turns into a symbolic link and back", escapeWith(symlinkRace)},
	{"escape", "`..` from a directory that is moved out of the export and back", escapeWith(renameRace)},
	{"escape", "something mounted inside the export, again and again", escapeWith(mountRace)},
	{"escape", "MNT by `..`, symbolic links and names that lead out", escapeWith(mountPaths)},
	{"escape", "names that are paths", escapeWith(pathNames)},
	{"escape", "handles of objects that have left the export", escapeWith(movedHandles)},
}

const secret = "this must not leave the machine"

// prison is an export and what lies around it, on one file system.
type prison struct {
	*trial
	*server
	base string // holds in, which is exported, and out
	in   string
	out  string
	root []byte
}

func escapeWith(attack func(*prison)) func(*trial) {
	return func(t *trial) {
		p := &prison{trial: t, base: t.ext4("base", 32)}
		p.in, p.out = p.base+"/in", p.base+"/out"
		for _, d := range []string{p.in + "/a/b/c", p.in + "/d", p.out + "/d"} {
			t.must(os.MkdirAll(d, 0o755))
		}
		for _, f := range []string{p.out + "/secret", p.out + "/d/secret", p.base + "/secret"} {
			t.must(os.WriteFile(f, []byte(secret), 0o644))
		}
		t.must(os.WriteFile(p.in+"/d/open", []byte("this may"), 0o644))
		p.server = t.serve(export(p.in, ""))
		p.root = get(t.dial(p.server).mount(p.in))(t)
		attack(p)
	}
}

// probe tries to get at the secret below a handle.
func (p *prison) probe(c *client, fh []byte, names ...string) error {
	for _, name := range names {
		var err error
		if fh, err = c.lookup(fh, name); err != nil {
			return harmless(err)
		}
	}
	got, err := c.read(fh, 0, 4096)
	if err != nil {
		return harmless(err)
	}
	if bytes.Contains(got.data, []byte(secret)) {
		return fmt.Errorf("the secret has been read by %q", names)
	}
	return nil
}

// harmless lets NFS statuses pass.
func harmless(err error) error {
	if errors.As(err, new(status)) {
		return nil
	}
	return err
}

// exchange swaps two names in one step, so that there is always one of each.
func exchange(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}

func symlinkRace(p *prison) {
	p.must(os.Symlink("../out/d", p.in+"/l"))
	p.hammer(p.server, func() error { return exchange(p.in+"/d", p.in+"/l") }, func(c *client, _ *rand.Rand) error {
		for _, names := range [][]string{{"d", "secret"}, {"l", "secret"}, {"d", "..", "..", "out", "secret"}} {
			if err := p.probe(c, p.root, names...); err != nil {
				return err
			}
		}
		return nil
	})
}

func renameRace(p *prison) {
	c := p.dial(p.server)
	b := get(c.find(p.in, "a", "b"))(p.trial)
	deep := get(c.lookup(b, "c"))(p.trial)
	p.hammer(p.server, func() error {
		if err := os.Rename(p.in+"/a/b", p.out+"/b"); err != nil {
			return err
		}
		return os.Rename(p.out+"/b", p.in+"/a/b")
	}, func(c *client, _ *rand.Rand) error {
		for _, from := range [][]byte{b, deep} {
			for _, names := range [][]string{{"..", "secret"}, {"..", "..", "secret"}, {"..", "..", "..", "secret"}, {"..", "d", "secret"},
				{"..", "..", "out", "secret"}} {
				if err := p.probe(c, from, names...); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// mountRace: without crossmnt nothing that is mounted below the export is seen,
// not even in the moment in which it appears.
func mountRace(p *prison) {
	p.after(func() { unmount(p.in + "/d") })
	d := get(p.dial(p.server).find(p.in, "d"))(p.trial)
	p.hammer(p.server, func() error {
		if err := unix.Mount(p.out, p.in+"/d", "", unix.MS_BIND, ""); err != nil {
			return err
		}
		if !eventually(settleLimit, func() bool { return unix.Unmount(p.in+"/d", 0) == nil }) {
			return errors.New("cannot be unmounted")
		}
		return nil
	}, func(c *client, _ *rand.Rand) error {
		for _, names := range [][]string{{"d", "secret"}, {"d", "d", "secret"}} {
			if err := p.probe(c, p.root, names...); err != nil {
				return err
			}
		}
		return p.probe(c, d, "secret")
	})
}

// mountPaths: no path but one that leads into the export gives a handle.
func mountPaths(p *prison) {
	p.must(os.Symlink(p.out, p.in+"/out"))
	p.must(os.Symlink("..", p.in+"/up"))
	outside := []string{p.out, p.base, "/", "", "/etc", "/proc", "/proc/self/root", "/proc/1/root" + p.out, p.in + "/..", p.in + "/../out",
		p.in + "/a/../../out", p.in + "/out", p.in + "/out/d", p.in + "/up", p.in + "/up/out", p.in + "/d/../../out/d",
		p.in + "\x00" + p.out, p.in + "x", p.in[:len(p.in)-1], "../../../" + p.out, p.in + "//../out", p.in + "/a/b/c/../../../../out"}
	p.hammer(p.server, func() error { return exchange(p.in+"/d", p.in+"/out") }, func(c *client, rnd *rand.Rand) error {
		fh, err := c.mount(outside[rnd.IntN(len(outside))])
		if err == nil { // /in/out may be the directory d now
			err = p.probe(c, fh, "secret")
		}
		return harmless(err)
	})
}

func pathNames(p *prison) {
	names := []string{"..", "../out/secret", "../out", "d/open", "d/../../out/secret", "/etc/passwd", "/", "//", "./..", "..\x00", "\x00..", "...", "..\\out"}
	p.hammer(p.server, func() error { return os.Chmod(p.in, 0o755) }, func(c *client, rnd *rand.Rand) error {
		name := names[rnd.IntN(len(names))]
		fh, err := c.lookup(p.root, name)
		if err != nil {
			return harmless(err)
		}
		if !slices.Equal(fh, p.root) {
			return fmt.Errorf("LOOKUP of %q in the root of the export finds something", name)
		}
		return p.probe(c, fh, "secret")
	})
}

// movedHandles: directories that have left give no way back in or out; a file
// that has left is the one thing that a handle may go on naming without
// subtree_check (exports(5)), and here it is checked that it is no more than that.
func movedHandles(p *prison) {
	c := p.dial(p.server)
	for ctx := p.until(); ctx.Err() == nil; {
		name := fmt.Sprint("m", p.tried.Add(1))
		p.must(os.MkdirAll(p.in+"/"+name+"/sub", 0o755))
		dir := get(c.lookup(p.root, name))(p.trial)
		sub := get(c.lookup(dir, "sub"))(p.trial)
		p.must(os.Rename(p.in+"/"+name, p.out+"/"+name))
		for _, fh := range [][]byte{dir, sub} {
			for _, names := range [][]string{{"..", "secret"}, {"..", "..", "secret"}, {"..", "..", "out", "secret"}} {
				p.must(p.probe(c, fh, names...))
			}
			if list, _, err := c.readdirUp(fh); err == nil && slices.Contains(list, "secret") {
				p.errorf("READDIR of `..` shows what lies outside")
			}
		}
		p.must(syscall.Rmdir(p.out + "/" + name + "/sub"))
		p.must(syscall.Rmdir(p.out + "/" + name))
	}
}

// readdirUp lists the parent of a directory.
func (c *client) readdirUp(fh []byte) (names []string, eof bool, err error) {
	if fh, err = c.lookup(fh, ".."); err != nil {
		return nil, false, err
	}
	var list []wire.Entry
	list, eof, err = c.readdir(fh, 0, 8192)
	for _, e := range list {
		names = append(names, e.Name)
	}
	return names, eof, err
}
