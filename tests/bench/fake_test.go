package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"sluice/rpc/xdr"
)

// fake is an NFS server in which one thing is not as it should be.
type fake struct {
	size     uint64 // of its only file, whose bytes are all zero
	inode    uint64
	maxRead  uint32 // that FSINFO tells
	status   uint32 // of MNT
	silent   bool   // takes calls and says nothing
	silentAt int    // says nothing from this READ on, counted from 1; 0 is never
	closeAt  int    // closes the connection at this READ
	read     func(off uint64, count uint32) reply
	delay    time.Duration // of each READ

	mu    sync.Mutex
	reads int
}

// reply says what a READ's reply is like, where it is not as it should be.
type reply struct {
	status   uint32
	cut      uint32 // bytes too few
	data     byte
	noAttr   bool
	verifier int
	fragment int // bytes of a fragment
	raw      []byte
}

// start listens on loopback and returns the file's URL.
func (f *fake) start(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	conns := make(chan net.Conn, 1000)
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns <- c
			wg.Go(func() { f.serve(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		for {
			select {
			case c := <-conns:
				c.Close()
				continue
			case <-time.After(50 * time.Millisecond):
			}
			break
		}
		wg.Wait()
	})
	return fmt.Sprintf("nfs://%s/export/file", l.Addr())
}

func (f *fake) serve(c net.Conn) {
	defer c.Close()
	for {
		var mark [4]byte
		if _, err := io.ReadFull(c, mark[:]); err != nil {
			return
		}
		call := make([]byte, binary.BigEndian.Uint32(mark[:])&0xffff)
		if _, err := io.ReadFull(c, call); err != nil {
			return
		}
		out, closed := f.answer(call)
		if closed {
			return
		}
		if _, err := c.Write(out); err != nil {
			return
		}
	}
}

// answer is the reply to a call, as it goes over the wire.
func (f *fake) answer(call []byte) (out []byte, closed bool) {
	if f.silent {
		return nil, false
	}
	r := xdr.NewReader(call)
	xid := r.Uint32()
	r.Fixed(8)
	prog, _, proc := r.Uint32(), r.Uint32(), r.Uint32()
	for range 2 {
		r.Uint32()
		r.Opaque(400)
	}
	head := func(verifier int) []byte {
		b := xdr.AppendUint32(nil, xid)
		b = xdr.AppendUint64(b, 1<<32) // REPLY, accepted
		b = xdr.AppendOpaque(xdr.AppendUint32(b, 0), make([]byte, verifier))
		return xdr.AppendUint32(b, 0)
	}
	b := head(0)
	switch {
	case proc == 0:
	case prog == 100005: // MNT
		b = xdr.AppendUint32(b, f.status)
		if f.status == 0 {
			b = xdr.AppendUint32(xdr.AppendOpaque(b, []byte("root")), 0)
		}
	case proc == 1: // GETATTR
		b = f.appendAttr(xdr.AppendUint32(b, 0))
	case proc == 3: // LOOKUP
		b = xdr.AppendUint64(xdr.AppendOpaque(xdr.AppendUint32(b, 0), []byte("file")), 0)
	case proc == 19: // FSINFO
		b = xdr.AppendUint32(xdr.AppendUint64(b, 0), f.maxRead)
	case proc == 6:
		r.Opaque(64)
		return f.answerRead(head, r.Uint64(), r.Uint32())
	default:
		return nil, true
	}
	return mark(b, len(b)), false
}

// appendAttr appends a fattr3 of a regular file.
func (f *fake) appendAttr(b []byte) []byte {
	b = xdr.AppendUint64(xdr.AppendUint64(xdr.AppendUint32(b, 1), 0o644<<32|1), 0)
	b = append(xdr.AppendUint64(b, f.size), make([]byte, 24)...)
	return append(xdr.AppendUint64(b, f.inode), make([]byte, 24)...)
}

func (f *fake) answerRead(head func(int) []byte, off uint64, count uint32) (out []byte, closed bool) {
	f.mu.Lock()
	f.reads++
	n := f.reads
	f.mu.Unlock()
	time.Sleep(f.delay)
	if f.closeAt > 0 && n >= f.closeAt {
		return nil, true
	}
	if f.silentAt > 0 && n >= f.silentAt {
		return nil, false
	}
	var how reply
	if f.read != nil {
		how = f.read(off, count)
	}
	if how.raw != nil {
		return how.raw, false
	}
	b := xdr.AppendUint32(head(how.verifier), how.status)
	if how.noAttr {
		b = xdr.AppendUint32(b, 0)
	} else {
		b = f.appendAttr(xdr.AppendUint32(b, 1))
	}
	if how.status == 0 {
		data := make([]byte, min(uint64(count), f.size-off)-uint64(how.cut))
		for i := range data {
			data[i] = how.data
		}
		b = xdr.AppendUint64(b, uint64(len(data))<<32) // count, no end of file
		b = xdr.AppendOpaque(b, data)
	}
	if how.fragment > 0 {
		return mark(b, how.fragment), false
	}
	return mark(b, len(b)), false
}

// mark makes a record of fragments of at most size bytes.
func mark(b []byte, size int) (out []byte) {
	for len(b) > size {
		out = append(xdr.AppendUint32(out, uint32(size)), b[:size]...)
		b = b[size:]
	}
	return append(xdr.AppendUint32(out, 1<<31|uint32(len(b))), b...)
}
