package seekdisk

import (
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func testDrive(t *testing.T, o Options) *drive {
	o.setDefaults()
	must(t, o.validate())
	d := newDrive(o)
	t.Cleanup(d.close)
	return d
}

// fast has requests done as soon as they come.
var fast = Options{Rate: 1 << 40, Seek: -1}

// A request takes at least its time by the model.
func TestDriveTakesItsTime(t *testing.T) {
	d := testDrive(t, Options{Rate: 10_000_000, Seek: 20 * ms})
	begin := time.Now()
	for _, off := range []int64{0, 500_000, 0} { // 50 ms each, and one seek
		if errno := d.read(off, 500_000); errno != 0 {
			t.Fatal(errno)
		}
	}
	if took := time.Since(begin); took < 170*ms-d.head.transfer(d.head.trackBuffer) {
		t.Errorf("took %v", took)
	}
	s := d.snapshot()
	if s.Requests != 3 || s.Seeks != 1 || s.Bytes != 1_500_000 || s.Sizes[488] != 3 || s.Busy != 170*ms {
		t.Errorf("counted %+v", s)
	}
	if got := s.MeanKiB(); got < 488.2 || got > 488.3 {
		t.Errorf("mean %v KiB", got)
	}
	if got, want := s.HeadRate(), 1_500_000/0.170; got != want {
		t.Errorf("the head's rate is %v, want %v", got, want)
	}
	d.reset()
	if s = d.snapshot(); s.Requests != 0 || len(s.Sizes) != 0 {
		t.Errorf("after reset: %+v", s)
	}
}

// started runs n reads and returns a channel that gets their results.
func started(t *testing.T, d *drive, n int) <-chan syscall.Errno {
	results := make(chan syscall.Errno, n)
	for i := range n {
		go func() { results <- d.read(int64(i)*4096, 4096) }()
	}
	for deadline := time.Now().Add(10 * time.Second); d.snapshot().Waiting < n; time.Sleep(ms) {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d requests wait", d.snapshot().Waiting, n)
		}
	}
	return results
}

func TestDriveStall(t *testing.T) {
	d := testDrive(t, fast)
	d.stall(0)
	results := started(t, d, 3)
	d.unstall()
	for range 3 {
		if errno := <-results; errno != 0 {
			t.Error(errno)
		}
	}
	begin := time.Now()
	d.stall(50 * ms)
	if errno := d.read(0, 4096); errno != 0 || time.Since(begin) < 50*ms {
		t.Errorf("%v after %v", errno, time.Since(begin))
	}
	// A stall without end replaces one with, whose timer must not end it.
	d.stall(30 * ms)
	d.stall(0)
	time.Sleep(60 * ms)
	results = started(t, d, 1)
	d.unstall()
	<-results
}

func TestDriveFail(t *testing.T) {
	d := testDrive(t, fast)
	d.fail(extent{8192, 4096})
	for _, c := range []struct {
		off, n int64
		want   syscall.Errno
	}{{0, 8192, 0}, {0, 8193, syscall.EIO}, {12_287, 1, syscall.EIO}, {12_288, 4096, 0}, {0, 1 << 20, syscall.EIO}} {
		if got := d.read(c.off, c.n); got != c.want {
			t.Errorf("%d bytes at %d: %v, want %v", c.n, c.off, got, c.want)
		}
	}
	d.heal()
	if got := d.read(8192, 1); got != 0 {
		t.Errorf("after heal: %v", got)
	}
}

// Closing a stalled drive fails what waits, reads and writes.
func TestDriveCloseStalled(t *testing.T) {
	d := testDrive(t, fast)
	d.stall(0)
	results := started(t, d, 2)
	var wrote syscall.Errno
	var all sync.WaitGroup
	all.Go(func() { wrote = d.write() })
	d.close()
	all.Wait()
	if a, b := <-results, <-results; a != syscall.EIO || b != syscall.EIO || wrote != syscall.EIO {
		t.Errorf("%v, %v, write %v; want EIO", a, b, wrote)
	}
	if errno := d.read(0, 1); errno != syscall.EIO {
		t.Errorf("after close: %v", errno)
	}
}

func TestCommands(t *testing.T) {
	d := testDrive(t, fast)
	run := func(line string) error { return d.command(strings.Fields(line)) }
	must(t, run("fail 0x1000 1"))
	if d.read(4096, 1) != syscall.EIO {
		t.Error("fail does nothing")
	}
	must(t, run("heal"))
	must(t, run("reset"))
	must(t, run("stall"))
	results := started(t, d, 1)
	must(t, run("release"))
	if errno := <-results; errno != 0 || d.snapshot().Requests != 1 {
		t.Errorf("after heal, reset, release: %v, %+v", errno, d.snapshot())
	}
	must(t, run("stall 1ms"))
	must(t, run(""))
	for _, bad := range []string{"stall -1s", "stall x", "stall 1s 2s", "fail 0", "fail 0 0", "fail a b", "release now", "burn"} {
		if run(bad) == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestOptions(t *testing.T) {
	for what, o := range map[string]Options{
		"a size that is no whole page": {Size: 16<<20 + 1},
		"too small a size":             {Size: 1 << 20},
		"a negative rate":              {Rate: -1},
		"a negative buffer":            {TrackBuffer: -1},
		"a negative depth":             {NCQ: -1},
		"too few tags":                 {Tags: 3},
	} {
		if o.setDefaults(); o.validate() == nil {
			t.Errorf("%s is accepted", what)
		}
	}
}
