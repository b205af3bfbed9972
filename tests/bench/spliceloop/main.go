// Command spliceloop is the limit that the server is measured against: a bare
// loop that answers NFS READs of one file by splicing it, file to pipe to socket,
// on a thread for each connection, and checks nothing at all. It answers MNT,
// LOOKUP and GETATTR with constants, so that an NFS load generator finds the file.
//
//	spliceloop FILE ADDR:PORT
//
// It is a yardstick, not a server: it trusts its client and must only listen on
// loopback.
package main

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

const (
	mountProgram = 100005
	procMnt      = 1
	procGetattr  = 1
	procLookup   = 3
	procRead     = 6

	maxRead = 1 << 20
)

var be = binary.BigEndian

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: spliceloop FILE ADDR:PORT")
		os.Exit(2)
	}
	fmt.Fprintln(os.Stderr, "spliceloop:", serve(os.Args[1], os.Args[2]))
	os.Exit(1)
}

// serve runs until it fails.
func serve(name, addr string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	st, err := f.Stat()
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "ready", l.Addr())
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		sock, err := c.(*net.TCPConn).File() // blocking, as a bare loop's is
		c.Close()
		if err != nil {
			return err
		}
		unix.SetNonblock(int(sock.Fd()), false)
		// As the server does on loopback, where pacing would be what is measured.
		unix.SetsockoptString(int(sock.Fd()), unix.IPPROTO_TCP, unix.TCP_CONGESTION, "reno")
		go (&conn{sock: int(sock.Fd()), file: int(f.Fd()), size: st.Size(), keep: sock}).loop()
	}
}

// conn is one client, on a thread of its own.
type conn struct {
	sock, file int
	size       int64
	keep       *os.File
	pipe       [2]int
	in         [64 << 10]byte
	out        [512]byte
}

func (c *conn) loop() {
	runtime.LockOSThread()
	defer c.keep.Close()
	if unix.Pipe2(c.pipe[:], unix.O_CLOEXEC) != nil {
		return
	}
	unix.FcntlInt(uintptr(c.pipe[1]), unix.F_SETPIPE_SZ, maxRead)
	have := 0
	for {
		n, err := unix.Read(c.sock, c.in[have:])
		if n <= 0 || err != nil {
			return
		}
		have += n
		at := 0
		for have-at >= 4 {
			size := int(be.Uint32(c.in[at:]) & 0x7fffffff)
			if have-at-4 < size {
				break
			}
			if !c.answer(c.in[at+4 : at+4+size]) {
				return
			}
			at += 4 + size
		}
		have = copy(c.in[:], c.in[at:have])
	}
}

// answer answers one call with AUTH_SYS and constants.
func (c *conn) answer(call []byte) bool {
	prog, proc := be.Uint32(call[12:]), be.Uint32(call[20:])
	args := call[28:]
	args = args[4+be.Uint32(args)+8:] // past the credential and the verifier
	b := append(c.out[:0], 0, 0, 0, 0)
	b = append(b, call[:4]...)
	b = be.AppendUint32(b, 1)
	b = append(b, make([]byte, 16)...) // accepted, no verifier, success
	b = be.AppendUint32(b, 0)          // status
	switch {
	case prog == mountProgram && proc == procMnt:
		b = be.AppendUint64(append(be.AppendUint32(b, 4), 1, 2, 3, 4), 1<<32|1)
	case proc == procLookup:
		b = be.AppendUint64(append(be.AppendUint32(b, 4), 1, 2, 3, 4), 0)
	case proc == procGetattr:
		b = c.appendAttr(b)
	case proc == procRead:
		return c.read(b, args)
	}
	be.PutUint32(b, 1<<31|uint32(len(b)-4))
	return c.send(b, 0)
}

// appendAttr appends a fattr3 of which only type and size mean anything.
func (c *conn) appendAttr(b []byte) []byte {
	n := len(b)
	b = append(b, make([]byte, 84)...)
	be.PutUint32(b[n:], 1)
	be.PutUint64(b[n+20:], uint64(c.size))
	return b
}

func (c *conn) read(b, args []byte) bool {
	args = args[4+be.Uint32(args):]
	off := int64(be.Uint64(args))
	left := int(min(int64(be.Uint32(args[8:])), maxRead, c.size-off))
	b = be.AppendUint32(b, 1)
	b = c.appendAttr(b)
	b = be.AppendUint32(b, uint32(left))
	b = be.AppendUint32(b, 0)
	b = be.AppendUint32(b, uint32(left))
	be.PutUint32(b, 1<<31|uint32(len(b)-4+left))
	if !c.send(b, unix.MSG_MORE) {
		return false
	}
	for left > 0 {
		n, err := unix.Splice(c.file, &off, c.pipe[1], nil, left, 0)
		if n <= 0 || err != nil {
			return false
		}
		left -= int(n)
		for n > 0 {
			m, err := unix.Splice(c.pipe[0], nil, c.sock, nil, int(n), 0)
			if m <= 0 || err != nil {
				return false
			}
			n -= m
		}
	}
	return true
}

func (c *conn) send(b []byte, flags int) bool {
	n, err := unix.SendmsgN(c.sock, b, nil, nil, flags|unix.MSG_NOSIGNAL)
	return err == nil && n == len(b)
}
