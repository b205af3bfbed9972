package bench

import (
	"context"
	"slices"

	"sluice/nfsd/bench/client"
	"sluice/nfsd/bench/load"
)

// MetaOps are the calls that Meta can make.
var MetaOps = []string{"null", "getattr", "lookup", "access", "readdirplus"}

// listingMax is how long a listing READDIRPLUS asks for, in bytes, as the Linux
// client does.
const listingMax = 32 << 10

// Meta makes one and the same small call many times: o.Op, one of MetaOps.
// LOOKUP looks the object up in its directory; READDIRPLUS lists the object or, if
// it is a file, its directory.
func Meta(ctx context.Context, o Options) (Result, error) {
	if !slices.Contains(MetaOps, o.Op) {
		return Result{}, usage("operation %q: must be one of %v", o.Op, MetaOps)
	}
	if err := o.check(); err != nil {
		return Result{}, err
	}
	if len(o.Targets) != 1 {
		return Result{}, usage("%s is of one object, not of %d", o.Op, len(o.Targets))
	}
	srv, err := client.Find(ctx, o.Targets[0], o.Timeout)
	if err != nil {
		return Result{}, err
	}
	obj, err := srv.Open(ctx, o.Targets[0].Path)
	if err != nil {
		return Result{}, err
	}
	m := newMeter(&o, srv)
	lo := m.loadOptions(&load.Repeat{Call: metaCall(srv, obj, o.Op), Calls: o.Calls})
	if o.Progress != nil {
		lo.Progress = func(calls, _ uint64) { o.Progress(calls, o.Calls) }
	}
	return m.run(ctx, lo)
}

func metaCall(srv *client.Server, obj *client.Object, op string) client.Call {
	switch op {
	case "null":
		return srv.Null()
	case "lookup":
		return srv.Lookup(obj.Dir, obj.Name)
	case "access":
		return srv.Access(obj.FH)
	case "readdirplus":
		dir := obj.Dir
		if obj.Type == client.TypeDir {
			dir = obj.FH
		}
		return srv.Readdirplus(dir, listingMax)
	}
	return srv.Getattr(obj.FH)
}
