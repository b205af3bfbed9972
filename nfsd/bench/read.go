package bench

import (
	"context"
	"fmt"

	"sluice/nfsd/bench/client"
	"sluice/nfsd/bench/load"
)

// Read reads files as dd does, with as many READs under way as asked for. A
// Result that is interrupted by ctx is Partial. With an error there is no Result:
// a figure that contains errors means nothing.
func Read(ctx context.Context, o Options) (Result, error) {
	o.Op = OpRead
	o.Streams = max(o.Streams, 1)
	if err := o.check(); err != nil {
		return Result{}, err
	}
	srv, objects, err := openFiles(ctx, &o)
	if err != nil {
		return Result{}, err
	}
	if err := chooseRSize(&o, objects); err != nil {
		return Result{}, err
	}
	reads := load.ReadOptions{RSize: uint32(o.RSize), Streams: o.Streams, Shuffle: o.Shuffle, Loops: o.Loops}
	for i, obj := range objects {
		size := obj.Size
		if o.Bytes > size {
			return Result{}, fmt.Errorf("%s has %d bytes, fewer than the %d asked for", o.Targets[i].Path, size, o.Bytes)
		}
		if o.Bytes > 0 {
			size = o.Bytes
		}
		if size == 0 {
			return Result{}, fmt.Errorf("%s is empty", o.Targets[i].Path)
		}
		reads.Files = append(reads.Files, load.File{Call: srv.Read(obj.FH), Size: size})
	}
	m := newMeter(&o, srv)
	m.findDisk(objects)
	if o.Cold {
		if err := m.dropCache(objects); err != nil {
			return Result{}, err
		}
	}
	verify, closeFiles, err := verifier(o.Verify)
	if err != nil {
		return Result{}, err
	}
	defer closeFiles()
	source := load.NewReads(reads)
	lo := m.loadOptions(source)
	lo.Verify, lo.MaxCount = verify, uint32(o.RSize)
	if o.Progress != nil {
		lo.Progress = func(_, bytes uint64) { o.Progress(bytes, source.Total()) }
	}
	return m.run(ctx, lo)
}

func openFiles(ctx context.Context, o *Options) (*client.Server, []*client.Object, error) {
	srv, err := client.Find(ctx, o.Targets[0], o.Timeout)
	if err != nil {
		return nil, nil, err
	}
	var objects []*client.Object
	for _, t := range o.Targets {
		obj, err := srv.OpenFile(ctx, t.Path)
		if err != nil {
			return nil, nil, err
		}
		objects = append(objects, obj)
	}
	return srv, objects, nil
}

// chooseRSize takes the default down to what the server reads at most, as mount
// does, but not a size that was asked for: the figure would be of another.
func chooseRSize(o *Options, objects []*client.Object) error {
	most := uint32(MaxRSize)
	for _, obj := range objects {
		if obj.MaxRead > 0 {
			most = min(most, obj.MaxRead)
		}
	}
	switch {
	case o.RSize == 0:
		o.RSize = int(min(most, DefaultRSize))
	case o.RSize > int(most):
		return usage("rsize %d: the server reads at most %d bytes at a time", o.RSize, most)
	}
	return nil
}
