package ioctx

import (
	"bytes"
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

func socketPair(t *testing.T) (ours, peer int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	t.Cleanup(func() { unix.Close(fds[0]); unix.Close(fds[1]) })
	return fds[0], fds[1]
}

// receive reads what is there.
func receive(fd, most int) (got []byte) {
	buf := make([]byte, most)
	for len(got) < most {
		n, err := unix.Read(fd, buf[:most-len(got)])
		if n <= 0 || err != nil {
			break
		}
		got = append(got, buf[:n]...)
	}
	return got
}

func getPipe(t *testing.T, p *Pipes) *Pipe {
	t.Helper()
	pipe, err := p.Get()
	must(t, err)
	return pipe
}

// Fill takes what the file has from the offset on, no more than asked for and no
// more than fits; the bytes come out as they are in the file.
func TestPipeFillDrain(t *testing.T) {
	const size = 300_000
	fd := openFile(t, size)
	pool := NewPipes(4)
	defer pool.Close()
	for _, row := range []struct{ off, n, want int }{
		{0, 1000, 1000}, {1, 4096, 4096}, {4095, 100_000, 100_000}, {size - 10, 100, 10}, {size, 10, 0}, {size + 5000, 10, 0},
	} {
		pipe := getPipe(t, pool)
		got, err := pipe.Fill(fd, int64(row.off), row.n)
		if err != nil || got != row.want || pipe.Len() != row.want {
			t.Fatalf("Fill at %d of %d: %d, %v, %d held; want %d", row.off, row.n, got, err, pipe.Len(), row.want)
		}
		sock, peer := socketPair(t)
		var data []byte
		for pipe.Len() > 0 {
			held := pipe.Len()
			n, err := pipe.Drain(sock, false)
			if err != nil && err != unix.EAGAIN || held-pipe.Len() != n {
				t.Fatalf("Drain: %d of %d, %d left, %v", n, held, pipe.Len(), err)
			}
			data = append(data, receive(peer, size)...)
		}
		if !bytes.Equal(data, pattern(row.off, row.want)) {
			t.Errorf("Fill at %d of %d: other bytes came out", row.off, row.n)
		}
		pipe.Release()
	}
	if pool.Made.Load() != 1 || pool.Discarded.Load() != 0 {
		t.Errorf("%d pipes made, %d discarded; want one that is used again", pool.Made.Load(), pool.Discarded.Load())
	}
}

// A full pipe ends Fill without an error, and without waiting.
func TestPipeFillFull(t *testing.T) {
	fd := openFile(t, 4<<20)
	pool := NewPipes(1)
	defer pool.Close()
	pipe := getPipe(t, pool)
	got, err := pipe.Fill(fd, 1, 4<<20)
	if err != nil || got > pipe.Size() || got < pipe.Size()-4096 {
		t.Errorf("%d bytes into a pipe of %d, %v", got, pipe.Size(), err)
	}
	pipe.Release()
}

func TestPipeFillError(t *testing.T) {
	dir, err := unix.Open(t.TempDir(), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(dir)
	pool := NewPipes(1)
	defer pool.Close()
	pipe := getPipe(t, pool)
	if n, err := pipe.Fill(dir, 0, 100); err == nil || n != 0 || pipe.Len() != 0 {
		t.Errorf("from a directory: %d, %v", n, err)
	}
	pipe.Release()
	if pool.Discarded.Load() != 0 {
		t.Error("an empty pipe was discarded")
	}
}

// A pipe that still holds something never comes back: its next reader would send
// another file's bytes.
func TestPipeNotEmptyIsDiscarded(t *testing.T) {
	fd := openFile(t, 10_000)
	pool := NewPipes(2)
	defer pool.Close()
	for range 10 {
		pipe := getPipe(t, pool)
		_, err := pipe.Fill(fd, 0, 5000)
		must(t, err)
		r := pipe.r
		pipe.Release()
		if isOpen(r) {
			t.Fatal("a pipe with bytes in it stays open")
		}
	}
	pipe := getPipe(t, pool)
	defer pipe.Release()
	if pipe.Len() != 0 || len(receive(pipe.r, 10)) != 0 {
		t.Error("a pipe from the pool has bytes in it")
	}
	if pool.Discarded.Load() != 10 || pool.InUse() != 1 {
		t.Errorf("%d discarded, %d in use; want 10 and 1", pool.Discarded.Load(), pool.InUse())
	}
}

// One that was emptied in part is not empty.
func TestPipePartlyDrained(t *testing.T) {
	fd := openFile(t, 1<<20)
	pool := NewPipes(1)
	defer pool.Close()
	pipe := getPipe(t, pool)
	_, err := pipe.Fill(fd, 0, 1<<20)
	must(t, err)
	sock, _ := socketPair(t)
	if n, err := pipe.Drain(sock, false); err != unix.EAGAIN || n == 0 || pipe.Len() == 0 {
		t.Fatalf("Drain into a small socket: %d, %v, %d left", n, err, pipe.Len())
	}
	pipe.Release()
	if pool.Discarded.Load() != 1 {
		t.Error("a pipe that was emptied in part came back")
	}
}

// The pool gives out as many as it may, and says so beyond.
func TestPipesBounded(t *testing.T) {
	pool := NewPipes(3)
	defer pool.Close()
	var out []*Pipe
	for range 3 {
		out = append(out, getPipe(t, pool))
	}
	if _, err := pool.Get(); !errors.Is(err, ErrNoPipe) {
		t.Fatalf("a fourth of three: %v", err)
	}
	out[0].Release()
	out[0] = getPipe(t, pool)
	for _, p := range out {
		p.Release()
	}
	if pool.InUse() != 0 {
		t.Errorf("%d in use", pool.InUse())
	}
}

// No more than idlePipes wait for their next reader.
func TestPipesIdleBounded(t *testing.T) {
	before := descriptors()
	pool := NewPipes(idlePipes + 20)
	var out []*Pipe
	for range idlePipes + 20 {
		out = append(out, getPipe(t, pool))
	}
	for _, p := range out {
		p.Release()
	}
	if n := descriptors() - before; n > 2*idlePipes {
		t.Errorf("%d descriptors are kept, want at most %d", n, 2*idlePipes)
	}
	pool.Close()
	if n := descriptors(); n > before {
		t.Errorf("%d descriptors after Close, %d before", n, before)
	}
}

// Filling, draining and pooling allocate nothing.
func TestPipeAllocates(t *testing.T) {
	fd := openFile(t, 100_000)
	pool := NewPipes(1)
	defer pool.Close()
	null, err := devNull()
	must(t, err)
	if n := testing.AllocsPerRun(100, func() {
		pipe, err := pool.Get()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := pipe.Fill(fd, 3, 50_000); err != nil {
			t.Fatal(err)
		}
		if _, err := pipe.Drain(null, true); err != nil {
			t.Fatal(err)
		}
		pipe.Release()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
