package client

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"sluice/rpc/xdr"
)

// MaxReply bounds a reply to one of the calls made here, in bytes.
const MaxReply = 64 << 10

var (
	// errUnavailable says that a program is not at a port.
	errUnavailable = errors.New("the program is not there")
	errNotReply    = errors.New("what came back is no reply to the call")
)

// conn makes calls one at a time.
type conn struct {
	net.Conn
	cred    []byte
	timeout time.Duration
	xid     uint32
}

// call returns the results of a call that was accepted and succeeded.
func (c *conn) call(ctx context.Context, prog, vers, proc uint32, args []byte) (xdr.Reader, error) {
	b := encode(c.cred, prog, vers, proc, args)
	c.xid++
	binary.BigEndian.PutUint32(b[XIDAt:], c.xid)
	c.SetDeadline(time.Now().Add(c.timeout))
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	_, err := c.Write(b)
	var rec []byte
	if err == nil {
		rec, err = readRecord(c)
	}
	switch {
	case ctx.Err() != nil:
		return xdr.Reader{}, ctx.Err()
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return xdr.Reader{}, errors.New("the server closed the connection instead of replying")
	case isTimeout(err):
		return xdr.Reader{}, fmt.Errorf("the server took the call but did not reply within %v", c.timeout)
	case err != nil:
		return xdr.Reader{}, err
	}
	return results(rec, c.xid)
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

// readRecord reads one record of up to MaxReply bytes (RFC 5531 section 11).
func readRecord(r io.Reader) ([]byte, error) {
	var rec []byte
	for {
		var mark [markLen]byte
		if _, err := io.ReadFull(r, mark[:]); err != nil {
			return nil, err
		}
		m := binary.BigEndian.Uint32(mark[:])
		n := int(m &^ lastFragment)
		if n > MaxReply-len(rec) {
			return nil, fmt.Errorf("%w: it is longer than %d bytes", errNotReply, MaxReply)
		}
		rec = append(rec, make([]byte, n)...)
		if _, err := io.ReadFull(r, rec[len(rec)-n:]); err != nil {
			return nil, err
		}
		if m&lastFragment != 0 {
			return rec, nil
		}
	}
}

func results(rec []byte, xid uint32) (xdr.Reader, error) {
	r := xdr.NewReader(rec)
	if got := r.Uint32(); r.Err() != nil || got != xid {
		return r, errNotReply
	}
	return r, ReplyError(&r, true)
}

// ReplyError reads a reply's head behind the transaction identifier: nil if the
// call was accepted and succeeded. null says that there is no nfsstat3.
func ReplyError(r *xdr.Reader, null bool) error {
	if typ := r.Uint32(); r.Err() != nil || typ != msgReply {
		return errNotReply
	}
	if stat := r.Uint32(); stat != replyAccepted {
		return deniedError(r.Uint32(), r.Uint32())
	}
	r.Uint32()
	r.Opaque(MaxVerifier)
	if stat := r.Uint32(); stat != 0 {
		return acceptError(stat)
	}
	if null {
		return r.Err()
	}
	status := r.Uint32()
	switch {
	case r.Err() != nil:
		return errNotReply
	case status != 0:
		return Status(status)
	}
	return nil
}
