package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// A FUSE file system with one file, "f", which has the contents of a real one and
// the faults that it is told to have. It is a process of its own, that touches
// nothing of what may hang on it; when it ends, the kernel fails all that waits
// for it. So it ends with the suite, however that ends, and nothing stays stuck.

// faultyEnv makes this program the file system; it holds the directory to mount
// on and the real file.
const faultyEnv = "CHAOS_FAULTY"

// faultyFile is the suite's side: a file and its process.
type faultyFile struct {
	t    *trial
	dir  string
	size int64
	in   io.Writer
	out  *bufio.Scanner
}

// mountFaulty mounts a real file as f in a new directory.
func (t *trial) mountFaulty(real string) *faultyFile {
	f := &faultyFile{t: t, dir: t.path("faulty"), size: get(os.Stat(real))(t).Size()}
	t.must(os.Mkdir(f.dir, 0o755))
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), faultyEnv+"="+f.dir+":"+real)
	cmd.Stderr = os.Stderr
	f.in = get(cmd.StdinPipe())(t)
	f.out = bufio.NewScanner(get(cmd.StdoutPipe())(t))
	t.must(cmd.Start())
	t.after(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		unmount(f.dir)
	})
	if !f.out.Scan() || f.out.Text() != "mounted" {
		t.skipf("a FUSE file system cannot be mounted: %s", f.out.Text())
	}
	return f
}

// tell has the file system do something, and returns how many reads it has got.
func (f *faultyFile) tell(format string, args ...any) (reads int) {
	fmt.Fprintf(f.in, format+"\n", args...)
	if !f.out.Scan() {
		f.t.errorf("the faulty file system has ended")
		return 0
	}
	return atoi(f.out.Text())
}

func (f *faultyFile) hang()                 { f.tell("hang 1") }
func (f *faultyFile) release()              { f.tell("hang 0") }
func (f *faultyFile) delay(d time.Duration) { f.tell("delay %d", d) }   // of each read
func (f *faultyFile) short()                { f.tell("short 1") }       // reads give half of what is asked for
func (f *faultyFile) fail(from int64)       { f.tell("fail %d", from) } // EIO from there on
func (f *faultyFile) reads() int            { return f.tell("reads 0") }

const failNowhere = 1 << 62

// runFaulty is the process of the file system.
func runFaulty(spec string) int {
	dir, real, _ := strings.Cut(spec, ":")
	file, err := os.Open(real)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	n := newFaultyNode(file)
	_, err = fs.Mount(dir, &faultyDir{node: n}, &fs.Options{MountOptions: fuse.MountOptions{
		AllowOther: true, DirectMountStrict: true, FsName: "faulty", MaxBackground: 64}})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("mounted")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var what string
		var v int64
		fmt.Sscan(in.Text(), &what, &v)
		n.do(what, v)
		fmt.Println(n.reads.Load())
	}
	return 0
}

// faultyNode is the file. Plain reads of it leave nothing in the page cache.
type faultyNode struct {
	fs.Inode
	file *os.File
	size int64

	delay, half, failFrom, reads atomic.Int64

	mu   sync.Mutex
	wake sync.Cond
	hung bool
}

func newFaultyNode(file *os.File) *faultyNode {
	n := &faultyNode{file: file}
	if st, err := file.Stat(); err == nil {
		n.size = st.Size()
	}
	n.failFrom.Store(failNowhere)
	n.wake.L = &n.mu
	return n
}

func (n *faultyNode) do(what string, v int64) {
	switch what {
	case "delay":
		n.delay.Store(v)
	case "short":
		n.half.Store(v)
	case "fail":
		n.failFrom.Store(v)
	case "hang":
		n.mu.Lock()
		n.hung = v != 0
		n.mu.Unlock()
		n.wake.Broadcast()
	}
}

func (n *faultyNode) wait() {
	n.reads.Add(1)
	time.Sleep(time.Duration(n.delay.Load()))
	n.mu.Lock()
	defer n.mu.Unlock()
	for n.hung {
		n.wake.Wait()
	}
}

func (n *faultyNode) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode, out.Size, out.Nlink = 0o444, uint64(n.size), 1
	return 0
}

func (n *faultyNode) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, fuse.FOPEN_DIRECT_IO, 0
}

func (n *faultyNode) Read(_ context.Context, _ fs.FileHandle, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	n.wait()
	if off+int64(len(dest)) > n.failFrom.Load() {
		return nil, syscall.EIO
	}
	if n.half.Load() != 0 {
		dest = dest[:(len(dest)+1)/2]
	}
	got, err := n.file.ReadAt(dest, off)
	if err != nil && err != io.EOF {
		return nil, syscall.EIO
	}
	return fuse.ReadResultData(dest[:got]), 0
}

// faultyDir is the root of the file system.
type faultyDir struct {
	fs.Inode
	node *faultyNode
}

func (r *faultyDir) OnAdd(ctx context.Context) {
	r.AddChild("f", r.NewPersistentInode(ctx, r.node, fs.StableAttr{Mode: syscall.S_IFREG}), false)
}

func (r *faultyDir) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode, out.Nlink = 0o555, 2
	return 0
}
