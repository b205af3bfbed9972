package main

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"sluice/tests/protocol/wire"
)

// (That no single altered bit is taken is a test of tests/protocol; here handles
// are altered while others use the good ones, and by the hundred thousand.)
var handleFaults = []fault{
	{"handle", "bits altered, one and several", attackWith(alteredHandles)},
	{"handle", "made of parts of good handles", handleParts},
	{"handle", "made up, with the volume of an export", attackWith(randomHandles)},
	{"handle", "made with another key", foreignHandles},
	{"handle", "used by a client that the export is not for", privateHandles},
}

// handleCalls are ways to use a handle, all of which must fail alike.
var handleCalls = []func(c *client, fh []byte) error{
	func(c *client, fh []byte) error { _, err := c.getattr(fh); return err },
	func(c *client, fh []byte) error { _, err := c.read(fh, 0, 4096); return err },
	func(c *client, fh []byte) error { _, err := c.lookup(fh, "f"); return err },
	func(c *client, fh []byte) error { _, err := c.lookup(fh, ".."); return err },
	func(c *client, fh []byte) error { _, _, err := c.readdir(fh, 0, 4096); return err },
	func(c *client, fh []byte) error {
		_, err := c.nfs(wire.Access, fhArgs(fh).U32(wire.AccessAll))
		return err
	},
	func(c *client, fh []byte) error { _, err := c.nfs(wire.Readlink, fhArgs(fh)); return err },
	func(c *client, fh []byte) error { _, err := c.nfs(wire.Fsinfo, fhArgs(fh)); return err },
}

// refused checks that a handle gets nowhere.
func (t *trial) refused(c *client, fh []byte) {
	t.tried.Add(1)
	err := handleCalls[t.rnd.IntN(len(handleCalls))](c, fh)
	var st status
	switch {
	case err == nil:
		t.errorf("the handle % x is taken", fh)
	case !errors.As(err, &st):
		t.fatalf("handle % x: %w", fh, err)
	case st != wire.ErrBadhandle && st != wire.ErrStale:
		t.errorf("handle % x: %w, want NFS3ERR_BADHANDLE or NFS3ERR_STALE", fh, st)
	}
}

func alteredHandles(v *victim) {
	c := v.dial(v.server)
	for ctx := v.until(); ctx.Err() == nil; {
		fh := slices.Clone(v.src.fh)
		for range 1 + v.trial.rnd.IntN(4) {
			bit := v.trial.rnd.IntN(8 * len(fh))
			fh[bit/8] ^= 1 << (bit % 8)
		}
		if !slices.Equal(fh, v.src.fh) {
			v.refused(c, fh)
		}
	}
}

// handleVolume is where the volume is in a handle, as `docs/security.md` says; an
// attacker knows that too.
const handleVolumeAt, handleVolumeEnd = 4, 12

func randomHandles(v *victim) {
	c := v.dial(v.server)
	for ctx := v.until(); ctx.Err() == nil; {
		fh := slices.Clone(v.src.fh)
		for i := range fh {
			if i >= handleVolumeEnd {
				fh[i] = byte(v.trial.rnd.Uint32())
			}
		}
		v.refused(c, fh)
	}
}

// handleParts puts the volume of one export before the object of another, and
// the signature of one object behind another.
func handleParts(t *trial) {
	var lines string
	var handles [][]byte
	var dirs []string
	for i := range 4 {
		dir := t.tmpfs(fmt.Sprint("data", i))
		lines += export(dir, fmt.Sprintf("fsid=%d", i+1))
		dirs = append(dirs, dir)
		t.must(os.WriteFile(dir+"/f", []byte("contents"), 0o644))
	}
	s := t.serve(lines)
	c := t.dial(s)
	for _, dir := range dirs {
		handles = append(handles, get(c.find(dir))(t), get(c.find(dir, "f"))(t))
	}
	for ctx := t.until(); ctx.Err() == nil; {
		a, b := handles[t.rnd.IntN(len(handles))], handles[t.rnd.IntN(len(handles))]
		cut := t.rnd.IntN(min(len(a), len(b)))
		if t.rnd.IntN(2) == 0 {
			cut = []int{handleVolumeAt, handleVolumeEnd, min(len(a), len(b)) - 8}[t.rnd.IntN(3)]
		}
		fh := append(slices.Clone(a[:cut]), b[cut:]...)
		if !slices.ContainsFunc(handles, func(h []byte) bool { return slices.Equal(h, fh) }) {
			t.refused(c, fh)
		}
	}
}

// foreignHandles come from a server that serves the same tree with another key.
func foreignHandles(t *trial) {
	dir := t.tmpfs("data")
	for i := range 50 {
		t.must(os.WriteFile(fmt.Sprintf("%s/%d", dir, i), []byte("x"), 0o644))
	}
	line := export(dir, "fsid=1")
	ours, theirs := t.serve(line), t.serve(line)
	c, other := t.dial(ours), t.dial(theirs)
	root := get(other.mount(dir))(t)
	own := get(c.mount(dir))(t)
	for ctx := t.until(); ctx.Err() == nil; {
		name := fmt.Sprint(t.rnd.IntN(50))
		fh := get(other.lookup(root, name))(t)
		if t.rnd.IntN(2) == 0 { // the file is known and open
			get(c.lookup(own, name))(t)
		}
		t.refused(c, fh)
	}
	t.refused(c, root)
}

// privateHandles are good; the client is not.
func privateHandles(t *trial) {
	dir := t.tmpfs("data")
	t.must(os.WriteFile(dir+"/f", []byte("secret"), 0o644))
	s := t.serve(dir + " 127.0.0.5(ro,insecure,no_root_squash,fsid=1)\n")
	friend := get(dialFrom("127.0.0.5", s.addr))(t)
	t.after(func() { friend.conn.Close() })
	handles := [][]byte{get(friend.find(dir))(t), get(friend.find(dir, "f"))(t)}
	c := t.dial(s)
	for ctx := t.until(); ctx.Err() == nil; {
		fh := handles[t.rnd.IntN(2)]
		get(friend.getattr(fh))(t)
		t.refused(c, fh)
	}
	if _, err := c.mount(dir); err == nil {
		t.errorf("MNT of an export for another client is answered")
	}
}
