package uring_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/uring"
)

func TestNop(t *testing.T) {
	r := newRing(t, uring.Config{})
	wantRes(t, "NOP", do(t, r, (*uring.SQE).PrepNop), 0)
}

func TestReadWrite(t *testing.T) {
	r := newRing(t, uring.Config{})
	data := pattern(10000)
	f := tempFile(t, nil)
	c := do(t, r, func(s *uring.SQE) { s.PrepWrite(fdOf(f), data, 0) })
	wantRes(t, "WRITE", c, 10000)
	c = do(t, r, func(s *uring.SQE) { s.PrepWrite(fdOf(f), data[:5], 10000) })
	wantRes(t, "WRITE at an offset", c, 5)

	got := make([]byte, 7000)
	c = do(t, r, func(s *uring.SQE) { s.PrepRead(fdOf(f), got, 4000) })
	wantRes(t, "READ to the end", c, 6005)
	if want := append(data[4000:10000:10000], data[:5]...); !bytes.Equal(got[:6005], want) {
		t.Error("READ brought other bytes")
	}
	c = do(t, r, func(s *uring.SQE) { s.PrepRead(fdOf(f), got, 20000) })
	wantRes(t, "READ past the end", c, 0)
	c = do(t, r, func(s *uring.SQE) { s.PrepRead(-1, got, 0) })
	wantRes(t, "READ of no file", c, errno(unix.EBADF))
}

func TestReadFlags(t *testing.T) {
	r := newRing(t, uring.Config{})
	rd, _ := pipe(t, 0)
	c := do(t, r, func(s *uring.SQE) {
		s.PrepRead(rd, make([]byte, 1), uring.CurrentPosition)
		s.OpFlags = unix.RWF_NOWAIT
	})
	wantRes(t, "READ with RWF_NOWAIT of an empty pipe", c, errno(unix.EAGAIN))
}

func TestReadIOPrio(t *testing.T) {
	r := newRing(t, uring.Config{})
	f := tempFile(t, pattern(4096))
	const ioprioBE4, ioprioBad = 2<<13 | 4, 7 << 13
	for ioprio, want := range map[uint16]int32{ioprioBE4: 4096, ioprioBad: errno(unix.EINVAL)} {
		c := do(t, r, func(s *uring.SQE) {
			s.PrepRead(fdOf(f), make([]byte, 4096), 0)
			s.IOPrio = ioprio
		})
		wantRes(t, "READ with an I/O priority", c, want)
	}
}

func iovec(bufs ...[]byte) []unix.Iovec {
	v := make([]unix.Iovec, len(bufs))
	for i, b := range bufs {
		v[i].Base = &b[0]
		v[i].SetLen(len(b))
	}
	return v
}

func TestReadvWritev(t *testing.T) {
	r := newRing(t, uring.Config{})
	f := tempFile(t, nil)
	data := pattern(300)
	c := do(t, r, func(s *uring.SQE) { s.PrepWritev(fdOf(f), iovec(data[:100], data[100:]), 8) })
	wantRes(t, "WRITEV", c, 300)
	a, b := make([]byte, 200), make([]byte, 100)
	c = do(t, r, func(s *uring.SQE) { s.PrepReadv(fdOf(f), iovec(a, b), 8) })
	wantRes(t, "READV", c, 300)
	if !bytes.Equal(append(a, b...), data) {
		t.Error("READV brought other bytes")
	}
}

func TestFixedBuffers(t *testing.T) {
	r := newRing(t, uring.Config{})
	bufs := [][]byte{make([]byte, 8192), pattern(4096)}
	if err := r.RegisterBuffers(bufs); err != nil {
		t.Fatal(err)
	}
	f := tempFile(t, nil)
	c := do(t, r, func(s *uring.SQE) { s.PrepWriteFixed(fdOf(f), bufs[1][100:200], 0, 1) })
	wantRes(t, "WRITE_FIXED", c, 100)
	c = do(t, r, func(s *uring.SQE) { s.PrepReadFixed(fdOf(f), bufs[0][4000:5000], 0, 0) })
	wantRes(t, "READ_FIXED", c, 100)
	if !bytes.Equal(bufs[0][4000:4100], bufs[1][100:200]) {
		t.Error("READ_FIXED brought other bytes")
	}
	c = do(t, r, func(s *uring.SQE) { s.PrepReadFixed(fdOf(f), make([]byte, 10), 0, 0) })
	wantRes(t, "READ_FIXED outside the buffer", c, errno(unix.EFAULT))
	if err := r.UnregisterBuffers(); err != nil {
		t.Fatal(err)
	}
	if err := r.UnregisterBuffers(); err == nil {
		t.Error("UnregisterBuffers twice is no error")
	}
}

func TestSparseBuffers(t *testing.T) {
	r := newRing(t, uring.Config{})
	if err := r.RegisterBuffersSparse(4); err != nil {
		t.Skip(err)
	}
	buf := make([]byte, 4096)
	if err := r.UpdateBuffers(2, [][]byte{buf}); err != nil {
		t.Fatal(err)
	}
	f := tempFile(t, pattern(4096))
	c := do(t, r, func(s *uring.SQE) { s.PrepReadFixed(fdOf(f), buf, 0, 2) })
	wantRes(t, "READ_FIXED into a sparse table", c, 4096)
	if !bytes.Equal(buf, pattern(4096)) {
		t.Error("READ_FIXED brought other bytes")
	}
	c = do(t, r, func(s *uring.SQE) { s.PrepReadFixed(fdOf(f), buf, 0, 1) })
	wantRes(t, "READ_FIXED into an empty slot", c, errno(unix.EFAULT))
	if err := r.UpdateBuffers(3, [][]byte{buf, buf}); err == nil {
		t.Error("UpdateBuffers beyond the table is no error")
	}
}

func TestFsyncFadvise(t *testing.T) {
	r := newRing(t, uring.Config{})
	f := tempFile(t, pattern(1<<20))
	for what, flags := range map[string]uint32{"FSYNC": 0, "FSYNC of data": uring.IORING_FSYNC_DATASYNC} {
		wantRes(t, what, do(t, r, func(s *uring.SQE) { s.PrepFsync(fdOf(f), flags) }), 0)
	}
	for _, advice := range []uint32{unix.FADV_WILLNEED, unix.FADV_DONTNEED, unix.FADV_SEQUENTIAL} {
		c := do(t, r, func(s *uring.SQE) { s.PrepFadvise(fdOf(f), 0, 1<<20, advice) })
		wantRes(t, "FADVISE", c, 0)
	}
	rd, _ := pipe(t, 0)
	c := do(t, r, func(s *uring.SQE) { s.PrepFadvise(rd, 0, 1, unix.FADV_WILLNEED) })
	wantRes(t, "FADVISE of a pipe", c, errno(unix.ESPIPE))
}

func TestOpenat2StatxClose(t *testing.T) {
	r := newRing(t, uring.Config{})
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), pattern(1234), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	how := &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH}
	c := do(t, r, func(s *uring.SQE) { s.PrepOpenat2(fdOf(d), cString(t, "../a"), how) })
	wantRes(t, "OPENAT2 out of the directory", c, errno(unix.EXDEV))
	c = do(t, r, func(s *uring.SQE) { s.PrepOpenat2(fdOf(d), cString(t, "a"), how) })
	if c.Err() != nil {
		t.Fatal("OPENAT2:", c.Err())
	}
	fd := int(c.Res)
	var st unix.Statx_t
	c = do(t, r, func(s *uring.SQE) {
		s.PrepStatx(fd, cString(t, ""), unix.AT_EMPTY_PATH, unix.STATX_SIZE, &st)
	})
	wantRes(t, "STATX", c, 0)
	if st.Size != 1234 {
		t.Errorf("STATX: size %d", st.Size)
	}
	wantRes(t, "CLOSE", do(t, r, func(s *uring.SQE) { s.PrepClose(fd) }), 0)
	wantRes(t, "CLOSE again", do(t, r, func(s *uring.SQE) { s.PrepClose(fd) }), errno(unix.EBADF))
}

func TestRegisteredFiles(t *testing.T) {
	r := newRing(t, uring.Config{})
	a, b := tempFile(t, []byte("a")), tempFile(t, []byte("bb"))
	read := func(index int) uring.CQE {
		return do(t, r, func(s *uring.SQE) {
			s.PrepRead(index, make([]byte, 8), 0)
			s.Flags |= uring.IOSQE_FIXED_FILE
		})
	}
	if err := r.RegisterFiles([]int32{int32(fdOf(a)), -1}); err != nil {
		t.Fatal(err)
	}
	wantRes(t, "slot 0", read(0), 1)
	wantRes(t, "slot 1, empty", read(1), errno(unix.EBADF))
	n, err := r.UpdateFiles(0, []int32{uring.IORING_REGISTER_FILES_SKIP, int32(fdOf(b))})
	if err != nil || n != 2 {
		t.Fatalf("UpdateFiles: %d, %v", n, err)
	}
	wantRes(t, "slot 0, skipped", read(0), 1)
	wantRes(t, "slot 1, filled", read(1), 2)
	if _, err := r.UpdateFiles(0, []int32{-1}); err != nil {
		t.Fatal(err)
	}
	wantRes(t, "slot 0, emptied", read(0), errno(unix.EBADF))
	if err := r.UnregisterFiles(); err != nil {
		t.Fatal(err)
	}
}

func TestDirectDescriptors(t *testing.T) {
	r := newRing(t, uring.Config{})
	if err := r.RegisterFilesSparse(3); err != nil {
		t.Skip(err)
	}
	f := tempFile(t, []byte("direct"))
	how := &unix.OpenHow{Flags: unix.O_RDONLY}
	open := func(index uint32) uring.CQE {
		return do(t, r, func(s *uring.SQE) {
			s.PrepOpenat2Direct(unix.AT_FDCWD, cString(t, f.Name()), how, index)
		})
	}
	wantRes(t, "OPENAT2 into slot 1", open(1), 0)
	x, y := open(uring.IORING_FILE_INDEX_ALLOC).Res, open(uring.IORING_FILE_INDEX_ALLOC).Res
	if min(x, y) != 0 || max(x, y) != 2 {
		t.Fatalf("OPENAT2 into any slot: got %d and %d, want 0 and 2", x, y)
	}
	wantRes(t, "OPENAT2 into a full table", open(uring.IORING_FILE_INDEX_ALLOC), errno(unix.ENFILE))
	c := do(t, r, func(s *uring.SQE) {
		s.PrepRead(1, make([]byte, 10), 0)
		s.Flags |= uring.IOSQE_FIXED_FILE
	})
	wantRes(t, "READ of slot 1", c, 6)
	wantRes(t, "CLOSE of slot 1", do(t, r, func(s *uring.SQE) { s.PrepCloseDirect(1) }), 0)
	wantRes(t, "OPENAT2 into any slot", open(uring.IORING_FILE_INDEX_ALLOC), 1)
}

func TestReadSelect(t *testing.T) {
	r := newRing(t, uring.Config{})
	f := tempFile(t, pattern(100))
	pool := make([]byte, 4*64)
	c := do(t, r, func(s *uring.SQE) { s.PrepProvideBuffers(pool, 64, 4, 7, 10) })
	wantRes(t, "PROVIDE_BUFFERS", c, 0)
	c = do(t, r, func(s *uring.SQE) { s.PrepReadSelect(fdOf(f), 64, 20, 7) })
	wantRes(t, "READ into a provided buffer", c, 64)
	bid, ok := c.Buffer()
	if !ok || bid < 10 || bid > 13 {
		t.Fatalf("READ: buffer %d, %v", bid, ok)
	}
	if got := pool[(bid-10)*64:][:64]; !bytes.Equal(got, pattern(100)[20:84]) {
		t.Error("READ brought other bytes")
	}
	c = do(t, r, func(s *uring.SQE) { s.PrepRemoveBuffers(10, 7) })
	wantRes(t, "REMOVE_BUFFERS", c, 3)
	c = do(t, r, func(s *uring.SQE) { s.PrepReadSelect(fdOf(f), 64, 0, 7) })
	wantRes(t, "READ without buffers", c, errno(unix.ENOBUFS))
}
