package nfsd

import (
	"encoding/binary"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/nfsd/sendpath"
	"sluice/rpc/xdr"
)

// rawClient makes calls with bare system calls on buffers that it keeps, so that
// it allocates nothing itself.
type rawClient struct {
	t   *testing.T
	fd  int
	buf []byte
}

func rawDial(t *testing.T, addr string) *rawClient {
	t.Helper()
	to := netip.MustParseAddrPort(addr)
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	must(t, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 10}))
	must(t, unix.Connect(fd, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}))
	return &rawClient{t, fd, make([]byte, 2<<20)}
}

// rawCall is a marked AUTH_SYS call of uid 0.
func rawCall(proc uint32, args []byte) []byte {
	b := make([]byte, 4)
	for _, v := range []uint32{1, 0, 2, nfsProgram, nfsVersion, proc, 1, 28, 0, 4, 0x74657374, 0, 0, 1, 5, 0, 0} {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	b = append(b, args...)
	binary.BigEndian.PutUint32(b, 1<<31|uint32(len(b)-4))
	return b
}

// exchange sends a call and receives the reply, which must be a success of this
// length (record mark included) with NFS3_OK.
func (c *rawClient) exchange(call []byte, want int) {
	if n, err := unix.Write(c.fd, call); err != nil || n != len(call) {
		c.t.Fatalf("write: %d, %v", n, err)
	}
	got := 0
	for got < 4 || got < 4+int(binary.BigEndian.Uint32(c.buf)&0x7fffffff) {
		n, err := unix.Read(c.fd, c.buf[got:])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			c.t.Fatalf("read: %d, %v", n, err)
		}
		got += n
	}
	// Behind the mark: xid, REPLY, accepted, verifier (8), SUCCESS, NFS3_OK.
	if got != want || binary.BigEndian.Uint32(c.buf[24:]) != 0 || binary.BigEndian.Uint32(c.buf[28:]) != 0 {
		c.t.Fatalf("a reply of %d bytes, want %d: % x", got, want, c.buf[:min(got, 64)])
	}
}

const replyHead = 4 + 24 + 4 // mark, accepted header, status

// The steady state of the calls that clients make most allocates nothing at all:
// GETATTR, ACCESS, LOOKUP, a small READ that is copied into the batch and one of
// 1 MiB by each path.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector's sync.Pool drops what it is given, at random")
	}
	for _, mode := range []sendpath.Mode{sendpath.Auto, sendpath.Splice, sendpath.Uring, sendpath.Copy} {
		t.Run(mode.String(), func(t *testing.T) { allocatesNothing(t, mode) })
	}
}

func allocatesNothing(t *testing.T, mode sendpath.Mode) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "file"), make([]byte, 2<<20), 0o644))
	settle := time.Now().Add(2 * settleTime)
	s, err := NewServer(Config{StateDir: t.TempDir(), Send: sendpath.Config{Mode: mode}, Log: quiet()})
	must(t, err)
	t.Cleanup(s.Close)
	s.SetExports(exporting(t, "ro,insecure,no_root_squash", dir))
	c := rawDial(t, serveOn(t, s, 1))
	root := s.shares.Load().byPath[dir].vol.root
	fh := lookupHandle(t, c, root, "file")
	read := func(off uint64, n uint32) []byte {
		return rawCall(6, xdr.AppendUint32(xdr.AppendUint64(xdr.AppendOpaque(nil, fh), off), n))
	}
	time.Sleep(time.Until(settle)) // verdicts are kept from now on
	for _, row := range []struct {
		name  string
		call  []byte
		reply int
		times int
	}{
		{"GETATTR", rawCall(1, xdr.AppendOpaque(nil, fh)), replyHead + 84, 5000},
		{"ACCESS", rawCall(4, xdr.AppendUint32(xdr.AppendOpaque(nil, fh), 0x3f)), replyHead + 88 + 4, 5000},
		{"LOOKUP", rawCall(3, xdr.AppendString(xdr.AppendOpaque(nil, root), "file")), replyHead + 4 + (len(fh)+3)&^3 + 88 + 88, 5000},
		{"READ of 4 KiB", read(4096, 4096), replyHead + 88 + 12 + 4096, 5000},
		{"READ of 1 MiB", read(0, 1<<20), replyHead + 88 + 12 + 1<<20, 1000},
		{"READ of 1 MiB, unaligned", read(5, 1<<20), replyHead + 88 + 12 + 1<<20, 1000},
	} {
		t.Run(row.name, func(t *testing.T) {
			c.t = t
			for range 100 {
				c.exchange(row.call, row.reply)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range row.times {
				c.exchange(row.call, row.reply)
			}
			runtime.ReadMemStats(&after)
			// Timers of the background (the sweeper, the pool's shrinking) and the
			// collector make a few.
			if n := after.Mallocs - before.Mallocs; n > uint64(row.times/50) {
				t.Errorf("%d allocations in %d calls", n, row.times)
			}
		})
	}
	st := s.Stats()
	for deadline := time.Now().Add(5 * time.Second); st.PipesInUse > 0 && time.Now().Before(deadline); st = s.Stats() {
		time.Sleep(time.Millisecond) // the pipe of the last reply comes back after it was sent
	}
	byPath := map[sendpath.Mode]uint64{sendpath.Auto: st.Send.Spliced + st.Send.Copied, sendpath.Splice: st.Send.Spliced,
		sendpath.Uring: st.Send.Ringed, sendpath.Copy: st.Send.Copied}
	if byPath[mode] < 2000 || st.PipesInUse != 0 {
		t.Errorf("%d pipes in use, %+v", st.PipesInUse, st.Send)
	}
}

func lookupHandle(t *testing.T, c *rawClient, dir []byte, name string) []byte {
	t.Helper()
	call := rawCall(3, xdr.AppendString(xdr.AppendOpaque(nil, dir), name))
	_, err := unix.Write(c.fd, call)
	must(t, err)
	n, err := unix.Read(c.fd, c.buf)
	must(t, err)
	r := xdr.NewReader(c.buf[replyHead:n])
	fh := r.Opaque(nfs3FHSize)
	must(t, r.Err())
	return append([]byte(nil), fh...)
}
