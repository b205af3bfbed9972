package ioctx

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

const kib, mib = int64(1 << 10), int64(1 << 20)

// request is a READ for the tests of streams: n bytes at off.
func request(off, n int64) span { return span{off, off + n} }

// feed gives a file's streams requests as if all were hits, and returns how many
// bytes would have been read ahead for them.
func feed(f *fileIO, size int64, rs ...span) (issued int64) {
	now := time.Unix(0, 0)
	for _, r := range rs {
		now = now.Add(time.Millisecond)
		s := f.follow(r, now)
		if !s.sequential() {
			continue
		}
		first := s.issued == 0
		if w := s.wants(r, size); w.len() > 0 {
			if !first {
				s.window.grow(windowMax)
			}
			issued += w.len()
			s.issued = w.end
		}
	}
	return issued
}

func newFileIO() *fileIO { return &fileIO{dev: &device{}} }

func inOrder(from, n, size int64) (rs []span) {
	for i := range n {
		rs = append(rs, request(from+i*size, size))
	}
	return rs
}

// shuffled puts requests in random order within windows of so many.
func shuffled(rnd *rand.Rand, rs []span, window int) []span {
	for w := range slices.Chunk(rs, window) {
		rnd.Shuffle(len(w), func(i, j int) { w[i], w[j] = w[j], w[i] })
	}
	return rs
}

func TestStreamInOrder(t *testing.T) {
	for _, size := range []int64{4 * kib, 32 * kib, 128 * kib, mib} {
		f := newFileIO()
		total := int64(256 * mib)
		got := feed(f, total, inOrder(0, total/size, size)...)
		if len(f.streams) != 1 || f.streams[0].base != total {
			t.Errorf("READs of %d: %d streams, base %d; want one that has come to %d", size, len(f.streams), f.streams[0].base, total)
		}
		// All but the first READs, which show that it is a stream.
		if got < total-3*max(size, sequentialBytes) || got > total {
			t.Errorf("READs of %d: %d bytes read ahead of %d", size, got, total)
		}
	}
}

// A client with many slots, or several connections, sends a sequential read in
// another order.
func TestStreamShuffled(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		for _, window := range []int{2, 16, 64} {
			f := newFileIO()
			const size, n = 128 * kib, 1024
			got := feed(f, n*size, shuffled(rnd, inOrder(0, n, size), window)...)
			if got < (n-3*int64(window))*size {
				t.Fatalf("seed %d, windows of %d: only %d of %d KiB read ahead", seed, window, got/kib, n*size/kib)
			}
			if got > n*size {
				t.Fatalf("seed %d, windows of %d: %d KiB read ahead of a file of %d", seed, window, got/kib, n*size/kib)
			}
		}
	}
}

// 1 MiB READs may come out of order over 64 MiB.
func TestStreamReorderBytes(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	f := newFileIO()
	if got := feed(f, 512*mib, shuffled(rnd, inOrder(0, 512, mib), 48)...); got < 400*mib {
		t.Errorf("%d MiB of 512 read ahead", got/mib)
	}
}

// Several readers of one file, or the stripes of one client, are streams of
// their own.
func TestStreamsOfOneFile(t *testing.T) {
	f := newFileIO()
	const size, n = 64 * kib, 512
	var rs []span
	for i := range int64(n) {
		for s := range int64(4) {
			rs = append(rs, request(s*256*mib+i*size, size))
		}
	}
	got := feed(f, 1<<30, rs...)
	if want := int64(4 * n * size); got < want-4*mib || got > want+4*windowMax {
		t.Errorf("%d MiB read ahead of %d", got/mib, want/mib)
	}
	moved := 0
	for _, s := range f.streams {
		if s.sequential() && s.run >= (n-4)*size {
			moved++
		}
	}
	if moved != 4 {
		t.Errorf("%d streams went all the way, want 4", moved)
	}
}

func TestStreamsClose(t *testing.T) {
	f := newFileIO()
	const size = 128 * kib
	var rs []span
	for i := range int64(128) { // 20 MiB apart: each within reach of the other
		rs = append(rs, request(i*size, size), request(20*mib+i*size, size))
	}
	feed(f, 1<<30, rs...)
	var bases []int64
	for _, s := range f.streams {
		if s.run >= 100*size {
			bases = append(bases, s.base)
		}
	}
	slices.Sort(bases)
	if want := []int64{128 * size, 20*mib + 128*size}; !slices.Equal(bases, want) {
		t.Errorf("streams have come to %v, want %v", bases, want)
	}
}

// After a seek the stream is found again within a few requests.
func TestStreamSeek(t *testing.T) {
	f := newFileIO()
	size := int64(4 << 30)
	feed(f, size, inOrder(0, 64, 128*kib)...)
	if got := feed(f, size, inOrder(3<<30, 16, 128*kib)...); got < 8*128*kib {
		t.Errorf("%d KiB read ahead after the seek", got/kib)
	}
}

// What the client has in its own cache it leaves out.
func TestStreamHole(t *testing.T) {
	f := newFileIO()
	rs := append(inOrder(0, 32, 128*kib), inOrder(33*128*kib, 64, 128*kib)...)
	feed(f, 1<<30, rs...)
	if f.streams[0].base != 97*128*kib {
		t.Errorf("the stream stays at %d KiB of %d", f.streams[0].base/kib, 97*128)
	}
}

func TestRandomIsLeftAlone(t *testing.T) {
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		for _, size := range []int64{4 * kib, 16 * kib, 64 * kib} {
			f := newFileIO()
			const file, n = 1 << 30, 4000
			var rs []span
			for range n {
				rs = append(rs, request(rnd.Int64N(file/size)*size, size))
			}
			if got := feed(f, file, rs...); got > n*size/20 {
				t.Errorf("seed %d, READs of %d KiB: %d KiB read ahead of %d asked for; 5 %% is the bound", seed, size/kib, got/kib, n*size/kib)
			}
		}
	}
}

func TestStridesAreLeftAlone(t *testing.T) {
	for _, stride := range []int64{2, 4, 16} {
		f := newFileIO()
		var rs []span
		for i := range int64(2000) {
			rs = append(rs, request(i*stride*64*kib, 64*kib))
		}
		if got := feed(f, 1<<40, rs...); got != 0 {
			t.Errorf("one READ of %d: %d KiB read ahead", stride, got/kib)
		}
		if n := len(f.streams[0].ahead); n > aheadMax+1 {
			t.Errorf("%d ranges kept", n)
		}
	}
	f := newFileIO()
	for i := int64(2000); i > 0; i-- { // backwards
		if got := feed(f, 1<<40, request(i*64*kib, 64*kib)); got != 0 {
			t.Fatalf("backwards: %d KiB read ahead", got/kib)
		}
	}
}

// ahead is a set of ranges: checked against a plain array of pages.
func TestAheadModel(t *testing.T) {
	for seed := range uint64(500) {
		rnd := rand.New(rand.NewPCG(seed, 5))
		s := &stream{io: newFileIO(), base: 10}
		var asked [200]bool
		for range 60 {
			off := int64(11 + rnd.IntN(150))
			r := request(off, int64(1+rnd.IntN(9)))
			s.insert(r)
			for i := r.off; i < r.end; i++ {
				asked[i] = true
			}
			var has [200]bool
			for i, a := range s.ahead {
				if a.off >= a.end || i > 0 && a.off <= s.ahead[i-1].end {
					t.Fatalf("seed %d: not sorted and apart: %v", seed, s.ahead)
				}
				for p := a.off; p < a.end; p++ {
					has[p] = true
				}
			}
			if has != asked {
				t.Fatalf("seed %d: %v is not what was inserted", seed, s.ahead)
			}
		}
	}
}

func TestUnread(t *testing.T) {
	s := &stream{base: 100, first: 50, issued: 200, ahead: []span{{120, 130}, {190, 220}}}
	if got := s.unread(); got != 100-10-10 {
		t.Errorf("unread %d, want 80", got)
	}
}

func TestWindow(t *testing.T) {
	var w window
	w.start(128 * kib)
	if w.size != 512*kib {
		t.Errorf("first window %d KiB, want 512", w.size/kib)
	}
	for range 10 {
		w.grow(windowMax)
	}
	if w.size != windowSteady {
		t.Errorf("grows to %d MiB, want %d", w.size/mib, windowSteady/mib)
	}
	// 400 MB/s that take 100 ms to come need 80 MB, of which 64 MiB are allowed.
	w.rate, w.latency = 400e6, 100*time.Millisecond
	w.grow(windowMax)
	w.grow(windowMax)
	if w.size != windowMax {
		t.Errorf("with evidence %d MiB, want %d", w.size/mib, windowMax/mib)
	}
	w.grow(mib)
	if w.size != mib {
		t.Errorf("with a limit of 1 MiB: %d KiB", w.size/kib)
	}
	w.grow(windowMax)
	w.lost()
	if w.size != mib {
		t.Errorf("after a loss %d KiB, want 1024", w.size/kib)
	}
	w.grow(windowMax)
	if w.size != mib {
		t.Errorf("after a loss it grows at once, to %d KiB", w.size/kib)
	}
	w.grow(windowMax)
	if w.size != mib+windowRecover {
		t.Errorf("recovers to %d KiB", w.size/kib)
	}
}
