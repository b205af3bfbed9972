package rpc

import (
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"net"
	"slices"
	"syscall"
	"testing"
	"time"
)

// FuzzConn sends a stream of bytes to a server twice: at once, and cut into
// segments as cuts says. What it answers must not depend on that, and each answer
// must be a record. Calls that wait may be answered in another order.
func FuzzConn(f *testing.F) {
	call := func(xid, proc uint32) []byte { return fragments(callRecord(xid, proc, []byte{0, 0, 0, 5})) }
	all := slices.Concat(call(1, 0), call(2, 3), call(3, 5), call(4, 1), call(5, 4), call(6, 99))
	f.Add(all, []byte{1, 3, 200})
	f.Add(all[:len(all)-3], []byte{7})
	f.Add(fragments(callRecord(1, 0, nil)[:20]), []byte{2})
	f.Add(slices.Concat(call(1, 5), []byte{0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}), []byte{30})
	split := []byte{}
	for _, b := range callRecord(7, 0, nil) {
		split = append(split, 0, 0, 0, 1, b)
	}
	f.Add(append(split, 0x80, 0, 0, 0), []byte{5})
	p := testProgram()
	p.Versions[0].Procs = p.Versions[0].Procs[:6] // not the one that tells where it was called from
	_, addr := startTestServer(f, Config{Programs: []Program{p}, Threads: 2, MaxConns: 100})
	f.Fuzz(func(t *testing.T, stream, cuts []byte) {
		if len(stream) > 1<<16 {
			return
		}
		whole, err := talk(t, addr, stream, nil)
		parts, err2 := talk(t, addr, stream, cuts)
		// Who sends what is no call is cut off, perhaps in the middle of a reply.
		if !legal(stream) {
			return
		}
		if err != nil || err2 != nil || !maps.Equal(whole, parts) {
			t.Errorf("at once %x, %v; in segments %x, %v", slices.Collect(maps.Keys(whole)), err, slices.Collect(maps.Keys(parts)), err2)
		}
	})
}

// legal says that a stream has nothing for which a server ends the connection.
func legal(stream []byte) bool {
	size, fragments := 0, 0
	for len(stream) >= markLen {
		mark := binary.BigEndian.Uint32(stream)
		n := int(mark &^ lastFragment)
		size, fragments = size+n, fragments+1
		last := mark&lastFragment != 0
		if size > MaxRecord || fragments > maxFragments || last && size < minRecord {
			return false
		}
		stream = stream[min(len(stream), markLen+n):]
		if last {
			size, fragments = 0, 0
		}
	}
	return true
}

// talk sends the stream and returns how often each reply came until the server
// ended the connection, in order or not.
func talk(t *testing.T, addr string, stream, cuts []byte) (replies map[string]int, _ error) {
	c, err := net.Dial("tcp", addr)
	must(t, err)
	defer c.Close()
	must(t, c.(*net.TCPConn).SetLinger(0)) // ports are not unlimited
	must(t, c.SetDeadline(time.Now().Add(20*time.Second)))
	go func() {
		for i := 0; len(stream) > 0; i++ {
			n := len(stream)
			if i < 64 && len(cuts) > 0 {
				n = min(n, 1+int(cuts[i%len(cuts)]))
			}
			if _, err := c.Write(stream[:n]); err != nil {
				return // the server has had enough; that shows in what is read
			}
			stream = stream[n:]
		}
		_ = c.(*net.TCPConn).CloseWrite()
	}()
	got, err := io.ReadAll(c)
	if err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("the server does not end the connection: %v", err)
	}
	replies = make(map[string]int)
	for rest := got; len(rest) > 0; {
		if len(rest) < markLen || len(rest) < markLen+int(binary.BigEndian.Uint32(rest)&^lastFragment) {
			return replies, errors.Join(err, io.ErrUnexpectedEOF)
		}
		n := markLen + int(binary.BigEndian.Uint32(rest)&^lastFragment)
		replies[string(rest[:n])]++
		rest = rest[n:]
	}
	return replies, err
}
