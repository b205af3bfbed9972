package wire

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"
)

// Programs.
const (
	Portmap = 100000
	NFS     = 100003
	Mount   = 100005
)

// accept_stat (RFC 5531 section 9).
const (
	Success      = 0
	ProgUnavail  = 1
	ProgMismatch = 2
	ProcUnavail  = 3
	GarbageArgs  = 4
)

// reject_stat and auth_stat (section 9).
const (
	RPCMismatch = 0
	AuthError   = 1

	AuthBadCred = 1
	AuthBadVerf = 3
	AuthTooWeak = 5
)

// Opaque is an opaque_auth (section 8.2).
type Opaque struct {
	Flavor uint32
	Body   []byte
}

// None is the AUTH_NONE credential and verifier.
var None = Opaque{}

// Sys is an AUTH_SYS credential (appendix A).
func Sys(uid, gid uint32, groups ...uint32) Opaque { return SysNamed("test", uid, gid, groups...) }

// SysNamed is Sys with a machine name.
func SysNamed(machine string, uid, gid uint32, groups ...uint32) Opaque {
	body := Enc(nil).U32(1).Str(machine).U32(uid, gid, uint32(len(groups))).U32(groups...)
	return Opaque{1, body}
}

// Call is a call message.
type Call struct {
	XID, Vers uint32 // Vers is the RPC version
	Prog      uint32
	ProgVers  uint32
	Proc      uint32
	Cred      Opaque
	Verf      Opaque
	Args      []byte
}

// NewCall returns an AUTH_SYS call of root with RPC version 2.
func NewCall(prog, vers, proc uint32, args []byte) Call {
	return Call{XID: 1, Vers: 2, Prog: prog, ProgVers: vers, Proc: proc, Cred: Sys(0, 0), Args: args}
}

// Record encodes the message, without record mark.
func (c Call) Record() []byte {
	e := Enc(nil).U32(c.XID, 0, c.Vers, c.Prog, c.ProgVers, c.Proc)
	e = e.U32(c.Cred.Flavor).Opaque(c.Cred.Body)
	e = e.U32(c.Verf.Flavor).Opaque(c.Verf.Body)
	return append(e, c.Args...)
}

// Mark puts a record into a single fragment (section 11).
func Mark(rec []byte) []byte { return Fragment(rec, true) }

// Fragment puts the mark of one fragment before b.
func Fragment(b []byte, last bool) []byte {
	n := uint32(len(b))
	if last {
		n |= 1 << 31
	}
	return append(binary.BigEndian.AppendUint32(nil, n), b...)
}

// Reply is a reply message.
type Reply struct {
	XID       uint32
	Denied    bool
	Stat      uint32 // accept_stat, or reject_stat if denied
	Low, High uint32 // of a mismatch
	Auth      uint32 // auth_stat of an AUTH_ERROR
	Results   []byte // of a success
}

// ParseReply decodes a reply message; what may not follow must not follow.
func ParseReply(rec []byte) (r Reply, err error) {
	d := &Dec{B: rec}
	r.XID = d.U32()
	if t := d.U32(); t != 1 {
		return r, fmt.Errorf("message type %d, want REPLY", t)
	}
	if r.Denied = d.Bool(); r.Denied {
		return r.parseDenied(d)
	}
	if flavor, body := d.U32(), d.Opaque(400); flavor != 0 || len(body) != 0 {
		return r, fmt.Errorf("verifier flavour %d with %d bytes", flavor, len(body))
	}
	r.Stat = d.U32()
	switch r.Stat {
	case Success:
		r.Results, d.B = d.B, nil
	case ProgMismatch:
		r.Low, r.High = d.U32(), d.U32()
	}
	return r, d.End()
}

func (r Reply) parseDenied(d *Dec) (Reply, error) {
	r.Stat = d.U32()
	switch r.Stat {
	case RPCMismatch:
		r.Low, r.High = d.U32(), d.U32()
	case AuthError:
		r.Auth = d.U32()
	default:
		d.fail("reject_stat %d", r.Stat)
	}
	return r, d.End()
}

// Timeout is how long a Conn waits for the peer.
const Timeout = 20 * time.Second

// Conn is a TCP connection that carries records.
type Conn struct {
	*net.TCPConn
	xid uint32
}

// Dial connects from an unprivileged port.
func Dial(addr string) (*Conn, error) {
	c, err := net.DialTimeout("tcp", addr, Timeout)
	if err != nil {
		return nil, err
	}
	return &Conn{TCPConn: c.(*net.TCPConn)}, nil
}

// DialPrivileged connects from a port below 1024, which takes root.
func DialPrivileged(addr string) (*Conn, error) {
	var err error
	for port := 1023; port >= 512; port-- {
		d := net.Dialer{LocalAddr: &net.TCPAddr{Port: port}, Timeout: Timeout}
		var c net.Conn
		if c, err = d.Dial("tcp", addr); err == nil {
			return &Conn{TCPConn: c.(*net.TCPConn)}, nil
		}
	}
	return nil, err
}

// Send sends bytes as they are.
func (c *Conn) Send(b []byte) error {
	c.SetWriteDeadline(time.Now().Add(Timeout))
	_, err := c.Write(b)
	return err
}

// Receive returns the next record, its fragments joined.
func (c *Conn) Receive() ([]byte, error) {
	c.SetReadDeadline(time.Now().Add(Timeout))
	var rec []byte
	for {
		var mark [4]byte
		if _, err := io.ReadFull(c, mark[:]); err != nil {
			return nil, err
		}
		m := binary.BigEndian.Uint32(mark[:])
		n := int(m &^ (1 << 31))
		if n > 8<<20 {
			return nil, fmt.Errorf("fragment of %d bytes", n)
		}
		at := len(rec)
		rec = append(rec, make([]byte, n)...)
		if _, err := io.ReadFull(c, rec[at:]); err != nil {
			return nil, fmt.Errorf("inside a record: %w", err)
		}
		if m>>31 == 1 {
			return rec, nil
		}
	}
}

// Call sends a call under an xid of its own and returns the next reply, which
// must be the one to it.
func (c *Conn) Call(call Call) (Reply, error) {
	c.xid++
	call.XID = c.xid
	if err := c.Send(Mark(call.Record())); err != nil {
		return Reply{}, err
	}
	rec, err := c.Receive()
	if err != nil {
		return Reply{}, err
	}
	r, err := ParseReply(rec)
	if err == nil && r.XID != call.XID {
		err = fmt.Errorf("reply to %d, want %d", r.XID, call.XID)
	}
	return r, err
}

// CallUDP sends a call in a datagram to addr and returns the reply.
func CallUDP(addr string, call Call) (Reply, error) {
	c, err := net.DialTimeout("udp", addr, Timeout)
	if err != nil {
		return Reply{}, err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := c.Write(call.Record()); err != nil {
		return Reply{}, err
	}
	b := make([]byte, 64<<10)
	n, err := c.Read(b)
	if err != nil {
		return Reply{}, err
	}
	r, err := ParseReply(b[:n])
	if err == nil && r.XID != call.XID {
		err = fmt.Errorf("reply to %d, want %d", r.XID, call.XID)
	}
	return r, err
}
