package disk

import (
	"testing"

	"sluice/nfsd/bench/host"
)

// A cold file arrives whole, whatever the order of its READs and however they are
// spread over connections, and all of it is read by the I/O context, once.
func TestColdReads(t *testing.T) {
	const size = 24<<20 + 777
	cases := []struct {
		what         string
		conns, depth int
		rsize        int
		window       int // shuffled in
	}{
		{"in order", 1, 8, 128 << 10, 1},
		{"one at a time", 1, 1, 1 << 20, 1},
		{"shuffled in 16", 4, 8, 128 << 10, 16},
		{"shuffled in 64", 4, 16, 64 << 10, 64},
		{"large and shuffled", 2, 4, 1 << 20, 16},
		{"not aligned to pages", 3, 8, 100_001, 8},
		{"small", 2, 16, 16 << 10, 16},
	}
	eachBackend(t, func(t *testing.T, b backend) {
		d := modelled(t)
		own := makeDir(t, scratch)
		s := startServer(t, b, []string{own, d.Dir()})
		c := dial(t, s)
		for _, on := range []string{own, d.Dir()} {
			f := makeFile(t, on, "file", 7, size)
			f.lookUp(c)
			disk, err := host.DiskOf(f.path())
			must(t, err)
			for _, tc := range cases {
				t.Run(disk.Name+"/"+tc.what, func(t *testing.T) {
					f.drop(t)
					_, before := s.io(disk.Name)
					parts := shuffled(split(f, 0, size, tc.rsize), tc.window)
					readers{conns: tc.conns, depth: tc.depth}.read(t, s, parts)
					io, after := s.io(disk.Name)
					if io.Mode != b.mode {
						t.Errorf("mode %q, want %q", io.Mode, b.mode)
					}
					if read := after.Bytes - before.Bytes; read < size*9/10 || read > size*12/10 {
						t.Errorf("the context read %d of %d bytes", read, size)
					}
					if served := after.Hits + after.Waits - before.Hits - before.Waits; served == 0 {
						t.Errorf("no READ waited for the disk or found what was read ahead: %+v", after)
					}
				})
			}
		}
	})
}

// What is in the page cache is sent without the I/O context.
func TestWarmReads(t *testing.T) {
	const size = 8 << 20
	eachBackend(t, func(t *testing.T, b backend) {
		d := modelled(t)
		s := startServer(t, b, []string{d.Dir()})
		f := makeFile(t, makeDir(t, d.Dir()), "warm", 3, size)
		f.fh = dial(t, s).find(d.Dir(), baseName(f.dir), f.name)
		rd := readers{conns: 2, depth: 8}
		rd.read(t, s, split(f, 0, size, 128<<10))
		_, before := s.io(d.Name())
		must(t, d.Reset())
		for range 3 {
			rd.read(t, s, split(f, 0, size, 128<<10))
		}
		if _, after := s.io(d.Name()); after.Requests != before.Requests || after.Waits != before.Waits {
			t.Errorf("warm READs went to the disk: %+v, before %+v", after, before)
		}
		if st := stats(t, d); st.Bytes > 64<<10 { // metadata
			t.Errorf("the disk was read: %+v", st)
		}
	})
}

// Several files, and several places in one, are read side by side.
func TestSideBySide(t *testing.T) {
	const size = 12 << 20
	eachBackend(t, func(t *testing.T, b backend) {
		d := modelled(t)
		dir := makeDir(t, d.Dir())
		s := startServer(t, b, []string{d.Dir()})
		c := dial(t, s)
		var each [][]part
		for i, name := range []string{"a", "b", "c", "d"} {
			f := makeFile(t, dir, name, uint64(10+i), size)
			f.fh = c.find(d.Dir(), baseName(dir), name)
			each = append(each, split(f, 0, size, 128<<10))
		}
		big := makeFile(t, dir, "big", 20, 4*size)
		big.fh = c.find(d.Dir(), baseName(dir), "big")
		for i := range int64(4) {
			each = append(each, split(big, i*size, size, 128<<10))
		}
		// Without a scheduler nobody else merges requests.
		must(t, d.SetScheduler("none"))
		t.Cleanup(func() { must(t, d.SetScheduler("mq-deadline")) })
		must(t, d.Reset())
		readers{conns: 4, depth: 16}.read(t, s, interleaved(each...))
		const all = 8 * size
		if st := stats(t, d); st.Bytes < all || st.Bytes > all*11/10 {
			t.Errorf("the disk read %d bytes for %d", st.Bytes, all)
		} else if st.MeanKiB() < 256 {
			// Each READ is of 128 KiB; 8 streams that are not kept together would
			// reach the disk as that.
			t.Errorf("requests of %.0f KiB reached the disk", st.MeanKiB())
		}
	})
}

// READs in order reach the device as long requests, even shuffled, with a kernel
// read-ahead no longer than they are.
func TestRequestsAreLong(t *testing.T) {
	const size = 64 << 20
	eachBackend(t, func(t *testing.T, b backend) {
		d := modelled(t)
		t.Cleanup(func() { must(t, d.SetScheduler("mq-deadline")) })
		s := startServer(t, b, []string{d.Dir()})
		f := makeFile(t, d.Dir(), "long", 5, size)
		f.lookUp(dial(t, s))
		for _, scheduler := range []string{"mq-deadline", "bfq", "none"} {
			if err := d.SetScheduler(scheduler); err != nil {
				skip(t, "scheduler %s: %v", scheduler, err)
			}
			f.drop(t)
			must(t, d.Reset())
			readers{conns: 4, depth: 8}.read(t, s, shuffled(split(f, 0, size, 128<<10), 16))
			st := stats(t, d)
			if st.MeanKiB() < 384 {
				t.Errorf("%s: requests of %.0f KiB: %+v", scheduler, st.MeanKiB(), st)
			}
			if st.Bytes > size*11/10 {
				t.Errorf("%s: the disk read %d bytes for %d", scheduler, st.Bytes, size)
			}
		}
	})
}

// Random READs are not read ahead of: the disk reads little more than what was
// asked for.
func TestRandomReads(t *testing.T) {
	const size = 256 << 20
	eachBackend(t, func(t *testing.T, b backend) {
		d := modelled(t)
		s := startServer(t, b, []string{d.Dir()})
		f := makeFile(t, d.Dir(), "random", 6, size)
		f.lookUp(dial(t, s))
		for _, rsize := range []int{4 << 10, 16 << 10, 64 << 10} {
			const reads = 300
			f.drop(t)
			must(t, d.Reset())
			all := split(f, 0, size, rsize)
			parts := shuffled(all, len(all))[:reads]
			readers{conns: 4, depth: 8}.read(t, s, parts)
			asked := uint64(reads * rsize)
			if st := stats(t, d); st.Bytes > asked*105/100+256<<10 { // metadata
				t.Errorf("%d KiB: the disk read %d bytes for %d", rsize>>10, st.Bytes, asked)
			}
		}
	})
}
