// Package yardstick is what the bare servers have in common that others are
// measured against: a loop on a thread for each connection that trusts its client,
// answers MNT, LOOKUP and GETATTR for one file with constants, and leaves it to its
// caller how the data of a READ leaves. They must only listen on loopback.
//
//	PROGRAM FILE [ADDR:PORT]
//
// prints the URL of the file, and serves it until it is killed.
package yardstick

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

const (
	progMount = 100005

	mountprocMnt      = 1
	nfsprocNull       = 0
	nfsprocGetattr    = 1
	nfsprocLookup     = 3
	nfsprocAccess     = 4
	nfsprocRead       = 6
	nfsprocReaddirpls = 17
	nfsprocFsinfo     = 19

	// MaxRead is the longest READ, in bytes.
	MaxRead = 1 << 20
	// OutMax is how many bytes of replies are collected before they leave.
	OutMax = 256 << 10
)

var be = binary.BigEndian

// Data sends the data of READs on one connection.
type Data interface {
	// Send sends n bytes from offset off of the file, behind the head of the reply
	// that is at the end of c.Out; or appends them to it. It pads them.
	Send(c *Conn, off int64, n int) error
}

// Main runs a server whose connections send data with what newData makes.
func Main(newData func(*os.File) (Data, error)) {
	addr := "127.0.0.1:0"
	switch len(os.Args) {
	case 2:
	case 3:
		addr = os.Args[2]
	default:
		fmt.Fprintf(os.Stderr, "usage: %s FILE [ADDR:PORT]\n", os.Args[0])
		os.Exit(2)
	}
	fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[0], serve(os.Args[1], addr, newData))
	os.Exit(1)
}

// serve runs until it fails.
func serve(name, addr string, newData func(*os.File) (Data, error)) error {
	name, err := filepath.Abs(name)
	if err != nil {
		return err
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Printf("nfs://%s%s\n", l.Addr(), name)
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
		data, err := newData(f)
		if err != nil {
			return err
		}
		go (&Conn{Sock: int(sock.Fd()), size: st.Size, inode: st.Ino, keep: sock, data: data}).loop()
	}
}

// Conn is one client, on a thread of its own.
type Conn struct {
	Sock  int
	Out   []byte // replies that have not been sent
	size  int64
	inode uint64
	keep  *os.File
	data  Data
	start int // of the current reply in Out
	in    [64 << 10]byte
}

func (c *Conn) loop() {
	runtime.LockOSThread()
	defer c.keep.Close()
	have := 0
	for {
		n, err := unix.Read(c.Sock, c.in[have:])
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
			if c.answer(c.in[at+4:at+4+size]) != nil || len(c.Out) > OutMax && c.Flush(0) != nil {
				return
			}
			at += 4 + size
		}
		have = copy(c.in[:], c.in[at:have])
		if c.Flush(0) != nil {
			return
		}
	}
}

// answer answers one call with constants.
func (c *Conn) answer(call []byte) error {
	prog, proc := be.Uint32(call[12:]), be.Uint32(call[20:])
	args := call[28:]
	args = args[4+be.Uint32(args)+8:] // past the credential and the verifier
	c.start = len(c.Out)
	b := append(c.Out, 0, 0, 0, 0)
	b = append(b, call[:4]...)
	b = be.AppendUint32(b, 1)
	b = append(b, make([]byte, 16)...) // accepted, no verifier, success
	switch {
	case proc == nfsprocNull:
	case prog == progMount && proc == mountprocMnt:
		b = be.AppendUint64(append(be.AppendUint64(b, 4), 1, 2, 3, 4), 1<<32|1)
	case proc == nfsprocGetattr:
		b = c.appendAttr(be.AppendUint32(b, 0))
	case proc == nfsprocLookup:
		b = be.AppendUint64(append(be.AppendUint64(b, 4), 1, 2, 3, 4), 0)
	case proc == nfsprocAccess:
		b = be.AppendUint64(be.AppendUint32(b, 0), 0x3f)
	case proc == nfsprocReaddirpls:
		b = be.AppendUint64(be.AppendUint64(be.AppendUint64(b, 0), 0), 1) // nothing, and that is all
	case proc == nfsprocFsinfo:
		b = be.AppendUint32(be.AppendUint64(b, 0), MaxRead)
	case proc == nfsprocRead:
		c.Out = b
		return c.read(args)
	default:
		return fmt.Errorf("no procedure %d", proc)
	}
	c.Out = b
	c.mark(0)
	return nil
}

// mark sets the record mark of the current reply, of which more bytes follow.
func (c *Conn) mark(more int) {
	be.PutUint32(c.Out[c.start:], 1<<31|uint32(len(c.Out)-c.start-4+more))
}

// appendAttr appends a fattr3 of which only type, size and fileid mean anything.
func (c *Conn) appendAttr(b []byte) []byte {
	n := len(b)
	b = append(b, make([]byte, 84)...)
	be.PutUint32(b[n:], 1)
	be.PutUint64(b[n+20:], uint64(c.size))
	be.PutUint64(b[n+52:], c.inode)
	return b
}

func (c *Conn) read(args []byte) error {
	args = args[4+be.Uint32(args):]
	off := int64(be.Uint64(args))
	n := int(min(int64(be.Uint32(args[8:])), MaxRead, c.size-off))
	b := c.appendAttr(be.AppendUint64(c.Out, 1))
	c.Out = be.AppendUint32(be.AppendUint64(b, uint64(n)<<32), uint32(n))
	c.mark(n + -n&3)
	if err := c.data.Send(c, off, n); err != nil {
		return err
	}
	c.Out = append(c.Out, make([]byte, -n&3)...)
	return nil
}

// Flush sends the replies collected.
func (c *Conn) Flush(flags int) error {
	if len(c.Out) == 0 {
		return nil
	}
	n, err := unix.SendmsgN(c.Sock, c.Out, nil, nil, flags|unix.MSG_NOSIGNAL)
	if err == nil && n < len(c.Out) {
		err = unix.EIO
	}
	c.Out = c.Out[:0]
	return err
}

// Pipe makes a pipe that holds the data of a READ.
func Pipe() (p [2]int, err error) {
	if err = unix.Pipe2(p[:], unix.O_CLOEXEC); err == nil {
		_, err = unix.FcntlInt(uintptr(p[1]), unix.F_SETPIPE_SZ, MaxRead)
	}
	return p, err
}

// SplicePipe sends n bytes from a pipe.
func (c *Conn) SplicePipe(pipe, n int) error {
	for n > 0 {
		m, err := unix.Splice(pipe, nil, c.Sock, nil, n, 0)
		if err != nil {
			return err
		}
		n -= int(m)
	}
	return nil
}
