package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"sluice/tests/pattern"
	"sluice/tests/protocol/wire"
)

var storageFaults = []fault{
	{"storage", "a file system whose reads take up to 5 s", slowStorage},
	{"storage", "a file system that hangs for ever", hangingStorage},
	{"storage", "a disk that hangs for ever, below ext4", hangingDisk},
	{"storage", "a disk that hangs with the middle of a READ on its way", hangingPart},
	{"storage", "EIO", failingStorage},
	{"storage", "short reads", shortStorage},
	{"storage", "a directory of up to 1,000,000 entries that changes while it is listed", changingDirectory},
}

// others reads from another export while one is in trouble, and must not feel it.
type others struct {
	*server
	src     source // on the file system in trouble
	readers *readers
}

// troubled serves a faulty file beside a good export that is being read.
func (t *trial) troubled() (o others, f *faultyFile) {
	good := t.tmpfs("good")
	seed := t.rnd.Uint64()
	t.must(pattern.WriteFile(t.path("real"), seed, 4<<20))
	f = t.mountFaulty(t.path("real"))
	s := t.serve(export(good, "fsid=1")+export(f.dir, "fsid=2"), "--threads", "2")
	o = others{server: s, src: source{get(t.dial(s).find(f.dir, "f"))(t), seed, f.size}}
	o.readers = t.startReaders(s, t.makeSource(s, good, "f", 32<<20), 2, false)
	return o, f
}

// readAt reads at a random place and checks what comes.
func (o *others) readAt(c *client, count uint32) error {
	off := o.t.rnd.Int64N(o.src.size)
	got, err := c.read(o.src.fh, uint64(off), count)
	if err != nil {
		return err
	}
	o.t.tried.Add(1)
	o.t.checked.Add(int64(len(got.data)))
	return o.src.checkAt(got, span{uint64(off), count})
}

// slowStorage is slow by the length of the trial: up to 5 s in a long run.
func slowStorage(t *trial) {
	o, f := t.troubled()
	f.delay(min(t.long, 5*time.Second))
	c := t.dial(o.server)
	for range 2 {
		t.must(o.readAt(c, 32<<10))
	}
	o.readers.checkPace(paceLimit)
}

// sendReads sends READs of 32 KiB in several connections; await takes the replies.
func (o *others) sendReads(conns, each int) (await func()) {
	var all []*client
	for range conns {
		c := o.t.dial(o.server)
		for i := range each {
			call := wire.NewCall(wire.NFS, 3, wire.Read, readArgs(o.src.fh, uint64(i)<<15, 32<<10))
			call.XID = uint32(i + 1)
			o.t.must(c.conn.Send(wire.Mark(call.Record())))
			o.t.tried.Add(1)
		}
		all = append(all, c)
	}
	return func() {
		for _, c := range all {
			r := reader{t: o.t, src: o.src, pending: make(map[uint32]span)}
			for i := range each {
				r.pending[uint32(i+1)] = span{uint64(i) << 15, 32 << 10}
			}
			for range each {
				rec, err := c.conn.Receive()
				o.t.must(err)
				o.t.must(r.check(rec))
			}
		}
	}
}

// hangingStorage: far more calls than there are waiting threads hang; when the
// file system wakes up, all are answered.
func hangingStorage(t *trial) {
	o, f := t.troubled()
	f.hang()
	before := o.gauge()
	await := o.sendReads(20, 50)
	time.Sleep(t.long)
	o.readers.checkPace(paceLimit)
	if n := o.gauge().threads - before.threads; n > 100 {
		t.errorf("%d more threads for 1,000 calls that hang", n)
	}
	o.checkMemory(0)
	f.release()
	await()
}

// badDisk is ext4 on a disk that can hang, below a server that exports it along
// with a good file system.
type badDisk struct {
	others
	dir  string
	disk *faultyFile
	warm source // whose pages cannot leave the page cache
	good source // on the good file system
}

func (t *trial) badDisk() *badDisk {
	image := t.path("image")
	t.must(os.WriteFile(image, nil, 0o600))
	t.must(os.Truncate(image, 64<<20))
	t.sh("mkfs.ext4", "-q", "-F", image)
	made := t.path("made")
	t.must(os.Mkdir(made, 0o755))
	t.sh("mount", "-o", "loop", image, made)
	seed := t.rnd.Uint64()
	t.must(pattern.WriteFile(made+"/cold", seed, 8<<20))
	t.must(pattern.WriteFile(made+"/warm", seed+1, 8<<20))
	t.sh("umount", made)

	d := &badDisk{dir: t.path("disk"), disk: t.mountFaulty(image)}
	t.must(os.Mkdir(d.dir, 0o755))
	t.sh("mount", "-o", "loop,ro,noload", d.disk.dir+"/f", d.dir)
	t.after(func() { unmount(d.dir) })
	t.after(d.disk.release)
	good := t.tmpfs("good")
	d.server = t.serve(export(d.dir, "fsid=1")+export(good, "fsid=2"), "--threads", "2")
	c := t.dial(d.server)
	d.warm = source{get(c.find(d.dir, "warm"))(t), seed + 1, 8 << 20}
	t.pin(d.dir + "/warm")
	d.src = source{get(c.find(d.dir, "cold"))(t), seed, 8 << 20}
	get(c.read(d.src.fh, 0, 1))(t) // opened
	d.good = t.makeSource(d.server, good, "f", 8<<20)
	return d
}

// pin keeps a file in the page cache for the time of the trial.
func (t *trial) pin(path string) {
	f := get(os.Open(path))(t)
	defer f.Close()
	m := get(unix.Mmap(int(f.Fd()), 0, int(get(f.Stat())(t).Size()), unix.PROT_READ, unix.MAP_SHARED))(t)
	t.after(func() { _ = unix.Munmap(m) })
	t.must(unix.Mlock(m))
}

// hangingDisk: cached data of other files on the very disk is read on.
func hangingDisk(t *trial) {
	d := t.badDisk()
	t.forget(d.dir + "/cold")
	d.disk.hang()
	began := d.disk.reads()
	await := d.sendReads(4, 50)
	cached := t.startReaders(d.server, d.warm, 2, false)
	elsewhere := t.startReaders(d.server, d.good, 1, false)
	time.Sleep(t.long)
	if d.disk.reads() == began {
		t.errorf("nothing has been read from the disk: it was not tried")
	}
	cached.checkPace(paceLimit)
	elsewhere.stop()
	d.disk.release()
	await()
}

// hangingPart: of what a READ wants, all pages are in the page cache, but some
// have only been asked of the disk, by somebody else.
func hangingPart(t *trial) {
	d := t.badDisk()
	get(os.ReadFile(d.dir + "/cold"))(t)
	f := get(os.Open(d.dir + "/cold"))(t)
	t.after(func() { f.Close() })
	t.must(unix.Fadvise(int(f.Fd()), 256<<10, 128<<10, unix.FADV_DONTNEED))
	d.disk.hang()
	began := d.disk.reads()
	local := exec.Command("dd", "if="+d.dir+"/cold", "of=/dev/null", "bs=128K", "skip=2", "count=1", "status=none")
	t.must(local.Start())
	t.after(func() { d.disk.release(); _ = local.Wait() })
	if !eventually(readyLimit, func() bool { return d.disk.reads() > began }) {
		t.errorf("nothing has been read from the disk: it was not tried")
	}
	elsewhere := t.startReaders(d.server, d.good, 4, false)
	c := t.dial(d.server)
	call := wire.NewCall(wire.NFS, 3, wire.Read, readArgs(d.src.fh, 0, 1<<20))
	t.must(c.conn.Send(wire.Mark(call.Record())))
	t.tried.Add(1)
	time.Sleep(max(t.long, 2*time.Second))
	reads := elsewhere.reads.Load()
	if !eventually(paceLimit, func() bool { return elsewhere.reads.Load() > reads+100 }) {
		t.errorf("readers of another export stand still while the disk hangs")
	}
	d.disk.release()
	elsewhere.checkPace(paceLimit)
	t.must(t.takeReply(c, &d.src))
}

// forget takes a file's pages out of the page cache.
func (t *trial) forget(path string) {
	f := get(os.Open(path))(t)
	defer f.Close()
	t.must(unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
}

// failingStorage: NFS3ERR_IO where the disk says so, right bytes elsewhere, and
// everywhere when it has recovered.
func failingStorage(t *trial) {
	const nfs3ErrIO = 5
	o, f := t.troubled()
	c := t.dial(o.server)
	failures := 0
	for ctx := t.until(); ctx.Err() == nil; {
		f.fail(f.size / 2)
		off, count := uint64(t.rnd.Int64N(f.size)), uint32(1+t.rnd.IntN(1<<20))
		got, err := c.read(o.src.fh, off, count) // what is in the page cache is right
		t.tried.Add(1)
		switch {
		case err == nil:
			t.must(o.src.checkAt(got, span{off, count}))
		case errors.Is(err, status(nfs3ErrIO)):
			failures++
		default:
			t.fatalf("READ that fails: %w, want NFS3ERR_IO", err)
		}
		f.fail(failNowhere)
		t.must(o.readAt(c, count))
		t.forget(t.path("faulty", "f"))
	}
	o.readers.checkPace(paceLimit)
	if failures == 0 {
		t.errorf("no READ has failed: it was not tried")
	}
}

func shortStorage(t *trial) {
	o, f := t.troubled()
	f.short()
	c := t.dial(o.server)
	for ctx := t.until(); ctx.Err() == nil; {
		t.must(o.readAt(c, uint32(1+t.rnd.IntN(1<<20))))
	}
	o.readers.checkPace(paceLimit)
}

// changingDirectory: what stays is listed once, whatever comes and goes.
func changingDirectory(t *trial) {
	count := 100_000
	if t.long > 3*time.Second {
		count = 1_000_000
	}
	dir := t.tmpfs("big")
	d := get(os.Open(dir))(t)
	t.after(func() { d.Close() })
	for i := range count {
		t.must(unix.Mknodat(int(d.Fd()), fmt.Sprint("s", i), unix.S_IFREG|0o644, 0))
	}
	s := t.serve(export(dir, "fsid=1"))
	c := t.dial(s)
	fh := get(c.mount(dir))(t)
	var changing sync.WaitGroup
	done := make(chan struct{})
	changing.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			_ = unix.Mknodat(int(d.Fd()), fmt.Sprint("x", i), unix.S_IFREG|0o644, 0)
			_ = unix.Unlinkat(int(d.Fd()), fmt.Sprint("x", i-50), 0)
			t.tried.Add(2)
		}
	})
	t.after(func() { close(done); changing.Wait() })
	seen := make(map[string]bool, count)
	for cookie, eof := uint64(0), false; !eof; {
		var list []wire.Entry
		var err error
		list, eof, err = c.readdir(fh, cookie, 64<<10)
		t.must(err)
		for _, e := range list {
			cookie = e.Cookie
			if e.Name[0] != 's' {
				continue
			}
			if seen[e.Name] {
				t.errorf("%s is listed twice", e.Name)
			}
			seen[e.Name] = true
		}
	}
	if len(seen) != count {
		t.errorf("%d of %d entries are listed", len(seen), count)
	}
	s.checkMemory(0)
	t.notef("%d entries", count)
}
