package client

import (
	"context"
	"fmt"
	"strings"

	"sluice/rpc/xdr"
)

// Types of objects, ftype3 of RFC 1813 section 2.6.
const (
	TypeFile = 1
	TypeDir  = 2
)

// Object is a file or directory on a server.
type Object struct {
	FH     []byte
	Type   uint32
	Size   uint64 // bytes
	FileID uint64 // the inode's number, as a rule
	// Dir and Name are the parent's handle and the object's name in it; for the
	// directory that was mounted, its own handle and ".".
	Dir  []byte
	Name string
	// MaxRead is the longest READ that the server answers in full (rtmax), in bytes.
	MaxRead uint32
}

// Open mounts and looks up path. A path that is a symbolic link is not followed.
func (s *Server) Open(ctx context.Context, path string) (*Object, error) {
	fh, names, err := s.mount(ctx, path)
	if err != nil {
		return nil, err
	}
	c, err := s.connect(ctx, s.Port, s.timeout)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	o := &Object{FH: fh, Dir: fh, Name: "."}
	for _, name := range names {
		o.Dir, o.Name = o.FH, name
		if o.FH, err = c.lookup(ctx, o.Dir, name); err != nil {
			return nil, fmt.Errorf("LOOKUP %s in %s: %w", name, path, err)
		}
	}
	if err := c.getattr(ctx, o); err != nil {
		return nil, fmt.Errorf("GETATTR %s: %w", path, err)
	}
	if err := c.fsinfo(ctx, o); err != nil {
		return nil, fmt.Errorf("FSINFO %s: %w", path, err)
	}
	return o, nil
}

// OpenFile is Open for what must be a regular file.
func (s *Server) OpenFile(ctx context.Context, path string) (*Object, error) {
	o, err := s.Open(ctx, path)
	switch {
	case err != nil:
		return nil, err
	case o.Type != TypeFile:
		return nil, fmt.Errorf("%s is not a regular file", strings.TrimSuffix(path, "/"))
	}
	return o, nil
}

// nfs makes an NFS call and returns what follows its status.
func (c *conn) nfs(ctx context.Context, proc uint32, args []byte) (xdr.Reader, error) {
	r, err := c.call(ctx, progNFS, version3, proc, args)
	if err != nil {
		return r, err
	}
	status := r.Uint32()
	switch {
	case r.Err() != nil:
		return r, errNotReply
	case status != 0:
		return r, Status(status)
	}
	return r, nil
}

func (c *conn) lookup(ctx context.Context, dir []byte, name string) ([]byte, error) {
	r, err := c.nfs(ctx, nfsprocLookup, xdr.AppendString(xdr.AppendOpaque(nil, dir), name))
	if err != nil {
		return nil, err
	}
	fh := r.Opaque(maxFH)
	return fh, r.Err()
}

// getattr fills in what fattr3 (RFC 1813 section 2.6) says.
func (c *conn) getattr(ctx context.Context, o *Object) error {
	r, err := c.nfs(ctx, nfsprocGetattr, xdr.AppendOpaque(nil, o.FH))
	if err != nil {
		return err
	}
	o.Type = r.Uint32()
	r.Fixed(16) // mode, nlink, uid, gid
	o.Size = r.Uint64()
	r.Fixed(24) // used, rdev, fsid
	o.FileID = r.Uint64()
	return r.Err()
}

const fattr3Len = 84

func (c *conn) fsinfo(ctx context.Context, o *Object) error {
	r, err := c.nfs(ctx, nfsprocFsinfo, xdr.AppendOpaque(nil, o.FH))
	if err != nil {
		return err
	}
	if r.Bool() {
		r.Fixed(fattr3Len)
	}
	o.MaxRead = r.Uint32()
	return r.Err()
}
