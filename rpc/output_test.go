package rpc

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"
)

// fakePayload sends its data a little at a time, and now and then claims that
// the socket is full.
type fakePayload struct {
	data     []byte
	rnd      *rand.Rand
	released int
}

func (p *fakePayload) Len() int { return len(p.data) }

func (p *fakePayload) SendTo(sock int, more bool) (sent int, err error) {
	for len(p.data) > 0 {
		if p.rnd.IntN(4) == 0 {
			return sent, unix.EAGAIN
		}
		n, err := Send(sock, p.data[:1+p.rnd.IntN(min(len(p.data), 700))], more)
		sent += n
		p.data = p.data[n:]
		if err != nil {
			return sent, err
		}
	}
	return sent, nil
}

func (p *fakePayload) Release() { p.released++ }

// socketPair returns two ends of a stream with small buffers.
func socketPair(t *testing.T) (ours, peer int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	t.Cleanup(func() { unix.Close(fds[0]); unix.Close(fds[1]) })
	must(t, unix.SetsockoptInt(fds[0], unix.SOL_SOCKET, unix.SO_SNDBUF, 4096))
	return fds[0], fds[1]
}

// Parked bytes and payloads leave in order, whole and once, whatever the socket
// takes at a time; each payload is released once, and the count of bytes is
// right all the way.
func TestParkedOrder(t *testing.T) {
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		sock, peer := socketPair(t)
		var p parked
		var want, got []byte
		var payloads []*fakePayload
		fill := func() {
			for range 1 + rnd.IntN(6) {
				b := randomBytes(rnd, rnd.IntN(3000))
				p.add(b)
				want = append(want, b...)
				if rnd.IntN(2) == 0 {
					pl := &fakePayload{data: randomBytes(rnd, 1+rnd.IntN(9000)), rnd: rnd}
					pad := -pl.Len() & 3
					want = append(append(want, pl.data...), make([]byte, pad)...)
					p.addPayload(pl, pad)
					payloads = append(payloads, pl)
				}
			}
		}
		fill()
		refills := 3
		for !p.empty() || refills > 0 {
			must(t, p.flush(sock, nil))
			got = append(got, drain(peer, 1+rnd.IntN(5000))...)
			if left := len(want) - len(got); p.bytes > left {
				t.Fatalf("seed %d: %d bytes parked, %d not received", seed, p.bytes, left)
			}
			if rnd.IntN(4) == 0 && refills > 0 {
				refills--
				fill()
			}
		}
		got = append(got, drain(peer, 1<<20)...)
		if !bytes.Equal(got, want) {
			t.Fatalf("seed %d: %d bytes received, want %d, or not the same", seed, len(got), len(want))
		}
		checkReleased(t, payloads)
	}
}

func randomBytes(rnd *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	return b
}

// drain reads what is there, up to n bytes.
func drain(fd, n int) (got []byte) {
	buf := make([]byte, n)
	for len(got) < n {
		m, err := unix.Read(fd, buf[:n-len(got)])
		if err != nil || m == 0 {
			break
		}
		got = append(got, buf[:m]...)
	}
	return got
}

func checkReleased(t *testing.T, payloads []*fakePayload) {
	t.Helper()
	for i, pl := range payloads {
		if pl.released != 1 {
			t.Errorf("payload %d of %d released %d times", i, len(payloads), pl.released)
		}
	}
}

// A broken connection is an error; what is parked is released then by reset, and
// nothing twice.
func TestParkedReset(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 7))
	for sent := range 4 {
		sock, peer := socketPair(t)
		var p parked
		var payloads []*fakePayload
		for range 5 {
			pl := &fakePayload{data: randomBytes(rnd, 3000), rnd: rnd}
			p.add([]byte("head"))
			p.addPayload(pl, 0)
			payloads = append(payloads, pl)
		}
		for range 3 * sent {
			must(t, p.flush(sock, nil))
			drain(peer, 2000)
		}
		must(t, unix.Shutdown(peer, unix.SHUT_RDWR))
		if !p.empty() {
			for p.flush(sock, nil) == nil { // the payload may say EAGAIN before it fails
			}
		}
		p.reset()
		if !p.empty() || len(p.segs) != 0 {
			t.Errorf("%d bytes, %d segments after reset", p.bytes, len(p.segs))
		}
		checkReleased(t, payloads)
	}
}

// Once everything has left, little memory is kept.
func TestParkedForgets(t *testing.T) {
	sock, peer := socketPair(t)
	var p parked
	p.add(make([]byte, 200_000))
	for !p.empty() {
		must(t, p.flush(sock, nil))
		drain(peer, 100_000)
	}
	if cap(p.buf) > 64<<10 {
		t.Errorf("%d bytes kept", cap(p.buf))
	}
}
