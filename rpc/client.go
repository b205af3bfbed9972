package rpc

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"sluice/rpc/xdr"
)

// client makes calls over one stream connection, one at a time. The server needs
// it only to talk to a local rpcbind and to see who answers at a port.
type client struct {
	conn net.Conn
	xid  uint32
}

const clientTimeout = 2 * time.Second

func dial(ctx context.Context, network, addr string) (*client, error) {
	d := net.Dialer{Timeout: clientTimeout}
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &client{conn: conn, xid: uint32(time.Now().UnixNano())}, nil
}

func (c *client) close() { c.conn.Close() }

// call returns the results of a successful call.
func (c *client) call(prog, vers, proc uint32, args []byte) ([]byte, error) {
	c.xid++
	b := make([]byte, markLen, 128+len(args))
	for _, v := range []uint32{c.xid, msgCall, rpcVersion, prog, vers, proc} {
		b = xdr.AppendUint32(b, v)
	}
	b = xdr.AppendUint64(b, AuthNone) // credential
	b = xdr.AppendUint64(b, AuthNone) // verifier
	b = append(b, args...)
	putMark(b, len(b)-markLen)
	c.conn.SetDeadline(time.Now().Add(clientTimeout))
	if _, err := c.conn.Write(b); err != nil {
		return nil, err
	}
	rec, err := c.readRecord()
	if err != nil {
		return nil, err
	}
	return parseReply(rec, c.xid)
}

func (c *client) readRecord() ([]byte, error) {
	var rec []byte
	for {
		var mark [markLen]byte
		if _, err := io.ReadFull(c.conn, mark[:]); err != nil {
			return nil, err
		}
		m := binary.BigEndian.Uint32(mark[:])
		n := int(m &^ lastFragment)
		if len(rec)+n > MaxRecord {
			return nil, errRecordTooLong
		}
		rec = append(rec, make([]byte, n)...)
		if _, err := io.ReadFull(c.conn, rec[len(rec)-n:]); err != nil {
			return nil, err
		}
		if m&lastFragment != 0 {
			return rec, nil
		}
	}
}

// parseReply returns the results in a reply that was accepted and succeeded.
func parseReply(rec []byte, xid uint32) ([]byte, error) {
	r := xdr.NewReader(rec)
	gotXID, typ, stat := r.Uint32(), r.Uint32(), r.Uint32()
	if r.Err() != nil || gotXID != xid || typ != msgReply {
		return nil, fmt.Errorf("rpc: not a reply to the call")
	}
	if stat != replyAccepted {
		return nil, fmt.Errorf("rpc: call denied")
	}
	r.Uint32()
	r.Opaque(maxAuthBody)
	if accept := r.Uint32(); r.Err() != nil || accept != acceptSuccess {
		return nil, fmt.Errorf("rpc: call failed with accept_stat %d", accept)
	}
	return r.Rest(), nil
}
