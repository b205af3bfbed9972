package protocol

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"sluice/tests/protocol/wire"
)

// slowFile is a file whose reads wait until the gate opens.
type slowFile struct {
	fs.Inode
	data    []byte
	nlink   uint32
	gate    chan struct{}
	waiting chan struct{} // gets a value when a read begins to wait
	// slowStat makes its attributes wait for the gate too.
	slowStat atomic.Bool
}

func newSlowFile(data []byte, nlink uint32) *slowFile {
	return &slowFile{data: data, nlink: nlink, gate: make(chan struct{}), waiting: make(chan struct{}, 1)}
}

func (f *slowFile) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	if f.slowStat.Load() {
		f.wait()
	}
	out.Mode, out.Size, out.Nlink = 0o444, uint64(len(f.data)), f.nlink
	return 0
}

// slowRoot is the directory that the files are in.
type slowRoot struct {
	fs.Inode
	nlink uint32
	files map[string]*slowFile
}

func (r *slowRoot) OnAdd(ctx context.Context) {
	for name, f := range r.files {
		r.AddChild(name, r.NewPersistentInode(ctx, f, fs.StableAttr{Mode: syscall.S_IFREG}), false)
	}
}

func (r *slowRoot) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode, out.Nlink = 0o555, r.nlink
	return 0
}

func (f *slowFile) wait() {
	select {
	case f.waiting <- struct{}{}:
	default:
	}
	<-f.gate
}

func (f *slowFile) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, 0, 0
}

func (f *slowFile) Read(_ context.Context, _ fs.FileHandle, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	f.wait()
	end := min(off+int64(len(dest)), int64(len(f.data)))
	return fuse.ReadResultData(f.data[min(off, end):end]), 0
}

// mountFuse mounts a FUSE file system of these files for the time of the test.
func mountFuse(t *testing.T, nlink uint32, files map[string]*slowFile) (dir string) {
	t.Helper()
	needRoot(t)
	dir = value(makeDir("fuse-"))(t)
	srv, err := fs.Mount(dir, &slowRoot{nlink: nlink, files: files}, &fs.Options{
		MountOptions: fuse.MountOptions{AllowOther: true, DirectMountStrict: true, FsName: "slow"},
	})
	if err != nil {
		skip(t, "a FUSE file system cannot be mounted: %v", err)
	}
	t.Cleanup(func() {
		for _, f := range files {
			f.open()
		}
		if err := srv.Unmount(); err != nil {
			_ = syscall.Unmount(dir, syscall.MNT_DETACH)
		}
	})
	return dir
}

// mountSlow mounts a file system with a slow file and a fast one.
func mountSlow(t *testing.T) (dir string, slow *slowFile) {
	t.Helper()
	slow = newSlowFile(pattern(0, 200_000), 1)
	fast := newSlowFile([]byte(helloText), 1)
	fast.open()
	return mountFuse(t, 2, map[string]*slowFile{"slow": slow, "fast": fast}), slow
}

// open lets the reads go on; it may be called again.
func (f *slowFile) open() {
	select {
	case <-f.gate:
	default:
		close(f.gate)
	}
}

// slowServer exports a slow file system along with a quick one.
func slowServer(t *testing.T) (s *server, dir string, slow *slowFile) {
	t.Helper()
	must(t, makeTree())
	dir, slow = mountSlow(t)
	s = startServer(t, dir+" *(ro,insecure,no_root_squash,fsid=77,no_subtree_check)\n"+
		treePath("pub")+" *(ro,insecure,no_root_squash,no_subtree_check)\n", "--threads", "2")
	return s, dir, slow
}

// send sends a READ without waiting for its reply.
func (c *client) sendRead(xid uint32, fh []byte, off uint64, count uint32) {
	c.t.Helper()
	call := wire.NewCall(wire.NFS, 3, wire.Read, readArgs(fh, off, count))
	call.XID = xid
	must(c.t, c.conn.Send(wire.Mark(call.Record())))
}

// receiveRead receives the reply to a READ, which must be the next one.
func (c *client) receiveRead(xid uint32) readResult {
	c.t.Helper()
	r := value(wire.ParseReply(value(c.conn.Receive())(c.t)))(c.t)
	if r.XID != xid || r.Denied || r.Stat != wire.Success {
		c.t.Fatalf("got %+v, want the reply to %d", r, xid)
	}
	return decodeRead(c.t, &wire.Dec{B: r.Results})
}

// Row "one slow READ": it does not delay another call on the same connection,
// nor on others, and its reply comes when its data does.
func TestSlowRead(t *testing.T) {
	s, dir, slow := slowServer(t)
	c, setup := dial(t, s), dial(t, s)
	pub := setup.mount(treePath("pub"))
	slowFH, fastFH := setup.find(setup.mount(dir), "slow"), setup.find(setup.mount(dir), "fast")
	big := setup.find(pub, "big")
	const pending = 10 // more than there are server threads
	for i := range uint32(pending) {
		c.sendRead(5000+i, slowFH, uint64(i)*20_000, 20_000)
	}
	<-slow.waiting
	begin := time.Now()
	for range 20 {
		c.attrOf(pub)
		if r := c.read(big, 0, 1<<20); len(r.data) != 1<<20 {
			t.Fatalf("READ of a quick file: %d bytes", len(r.data))
		}
		if r := c.read(fastFH, 0, 100); string(r.data) != helloText {
			t.Fatalf("READ of another file there: status %d", r.status)
		}
		setup.attrOf(pub)
	}
	if d := time.Since(begin); d > 5*time.Second {
		t.Errorf("80 quick calls beside a slow one took %v", d)
	}
	slow.open()
	seen := make(map[uint32]bool)
	for range pending {
		r := value(wire.ParseReply(value(c.conn.Receive())(t)))(t)
		res := decodeRead(t, &wire.Dec{B: r.Results})
		off := int(r.XID-5000) * 20_000
		if res.status != wire.OK || string(res.data) != string(pattern(off, 20_000)) || res.eof != (off == 180_000) {
			t.Errorf("slow READ at %d: status %d, %d bytes, eof %v", off, res.status, len(res.data), res.eof)
		}
		seen[r.XID] = true
	}
	if len(seen) != pending {
		t.Errorf("%d of %d slow reads answered", len(seen), pending)
	}
}

// Neither do attributes that are slow in coming.
func TestSlowGetattr(t *testing.T) {
	s, dir, slow := slowServer(t)
	c := dial(t, s)
	pub, fh := c.mount(treePath("pub")), c.find(c.mount(dir), "slow")
	slow.slowStat.Store(true)
	const pending = 5
	for i := range uint32(pending) {
		call := wire.NewCall(wire.NFS, 3, wire.Getattr, fhArgs(fh))
		call.XID = 5000 + i
		must(t, c.conn.Send(wire.Mark(call.Record())))
	}
	<-slow.waiting
	begin := time.Now()
	for range 20 {
		c.attrOf(pub)
	}
	if d := time.Since(begin); d > 5*time.Second {
		t.Errorf("20 quick calls beside a slow one took %v", d)
	}
	slow.open()
	for range pending {
		r := value(wire.ParseReply(value(c.conn.Receive())(t)))(t)
		if d := (wire.Dec{B: r.Results}); r.XID < 5000 || d.U32() != wire.OK || d.Attr().Size != 200_000 {
			t.Errorf("slow GETATTR: %+v", r)
		}
	}
}

// SIGTERM with a call under way: its reply comes whole, then the connection ends
// and the server exits with 0.
func TestDrainWaitsForReplies(t *testing.T) {
	s, dir, slow := slowServer(t)
	c := dial(t, s)
	fh := c.find(c.mount(dir), "slow")
	c.sendRead(1, fh, 0, 150_000)
	<-slow.waiting
	must(t, s.cmd.Process.Signal(syscall.SIGTERM))
	s.awaitLog(t, 0, "draining")
	if _, err := wire.Dial(s.addr); err == nil {
		t.Error("a draining server takes a connection")
	}
	slow.open()
	if r := c.receiveRead(1); r.status != wire.OK || string(r.data) != string(pattern(0, 150_000)) {
		t.Errorf("status %d, %d bytes", r.status, len(r.data))
	}
	if _, err := c.conn.Receive(); !errors.Is(err, io.EOF) {
		t.Errorf("after the last reply: %v, want the end of the connection", err)
	}
	must(t, s.wait())
}

// SIGTERM with replies that the client has yet to take, and with calls of his
// that the server has not received: he gets every reply that he was owed, and
// then the end of the connection. A reset would take from him what is on its way.
func TestDrainDeliversParkedReplies(t *testing.T) {
	must(t, makeTree())
	s := startServer(t, treePath("pub")+" *(ro,insecure,no_root_squash,no_subtree_check)\n")
	c := dial(t, s)
	must(t, c.conn.SetReadBuffer(64<<10))
	root := c.mount(treePath("pub"))
	fh := c.find(root, "big")
	const reads = 16
	var calls []byte
	for range reads {
		calls = append(calls, wire.Mark(wire.NewCall(wire.NFS, 3, wire.Read, readArgs(fh, 0, 1<<20)).Record())...)
	}
	must(t, c.conn.Send(calls)) // arrives as one
	eventually(t, func() error {
		if st, err := s.status(); err != nil || st.RPC.Calls["nfs/3/READ"] == 0 {
			return errors.Join(err, errors.New("no READ answered yet"))
		}
		return nil
	})
	time.Sleep(100 * time.Millisecond)
	must(t, c.conn.Send(wire.Mark(wire.NewCall(wire.NFS, 3, wire.Getattr, fhArgs(root)).Record()))) // not received: the connection is full
	must(t, s.cmd.Process.Signal(syscall.SIGTERM))
	s.awaitLog(t, 0, "draining")
	want := pattern(0, 1<<20)
	for i := range reads {
		if r := c.receiveRead(1); string(r.data) != string(want) {
			t.Fatalf("reply %d: status %d, %d bytes", i, r.status, len(r.data))
		}
	}
	// The last call may be answered or not.
	_, err := c.conn.Receive()
	if err == nil {
		_, err = c.conn.Receive()
	}
	if !errors.Is(err, io.EOF) {
		t.Errorf("after the last reply: %v, want the end of the connection", err)
	}
	must(t, s.wait())
}

// A file system that counts no links (many in user space say st_nlink 0 for
// everything) is served like any other: nothing there has been deleted.
func TestNlinkZero(t *testing.T) {
	f := newSlowFile([]byte(helloText), 0)
	f.open()
	dir := mountFuse(t, 0, map[string]*slowFile{"file": f})
	s := startServer(t, dir+" *(ro,insecure,no_root_squash,fsid=78,no_subtree_check)\n")
	c := dial(t, s)
	root := c.mount(dir)
	r := c.lookup(root, "file")
	if r.status != wire.OK {
		t.Fatalf("LOOKUP where st_nlink is 0: status %d, want NFS3_OK", r.status)
	}
	if got := c.read(r.fh, 0, 100); string(got.data) != helloText {
		t.Errorf("READ where st_nlink is 0: status %d", got.status)
	}
	if a := c.attrOf(root); a.Nlink < 2 {
		t.Errorf("nlink of the root is %d, want at least 2", a.Nlink)
	}
}
