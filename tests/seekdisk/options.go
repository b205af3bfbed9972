package seekdisk

import (
	"fmt"
	"time"
)

// Options are a disk's properties. Zero values stand for the defaults.
type Options struct {
	// Size is the capacity in bytes; default 4 GiB.
	Size int64
	// Rate is what the platter passes under the head, in bytes per second;
	// default 120 million.
	Rate int64
	// Seek is what a request costs that does not begin where the last one
	// ended; default 8 ms. Negative for none.
	Seek time.Duration
	// TrackBuffer is how many bytes the drive reads on by itself after a
	// request, in case the next one continues it; default 2 MiB, which forgives
	// a busy machine 17 ms between two requests.
	TrackBuffer int64
	// NCQ is how many requests the drive holds and may choose from; default 1.
	NCQ int
	// Tags is how many requests the block device dispatches to the drive at once.
	// What it has dispatched is out of the scheduler's hands. Default NCQ, but no
	// fewer than minTags.
	Tags int
	// Scheduler is the I/O scheduler; default mq-deadline.
	Scheduler string
	// ReadAheadKB is the kernel's read-ahead; default 128, the kernel's own.
	// Negative for none.
	ReadAheadKB int
}

// minTags is the fewest that the kernel allows (block/blk.h, BLKDEV_MIN_RQ).
const minTags = 4

func (o *Options) setDefaults() {
	setDefault(&o.Size, 4<<30)
	setDefault(&o.Rate, 120_000_000)
	setDefault(&o.Seek, 8*time.Millisecond)
	setDefault(&o.TrackBuffer, 2<<20)
	setDefault(&o.NCQ, 1)
	setDefault(&o.Tags, max(o.NCQ, minTags))
	setDefault(&o.Scheduler, "mq-deadline")
	setDefault(&o.ReadAheadKB, 128)
	o.Seek, o.ReadAheadKB = max(o.Seek, 0), max(o.ReadAheadKB, 0)
}

func setDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

func (o *Options) validate() error {
	switch {
	case o.Size < 16<<20 || o.Size%pageSize != 0:
		return fmt.Errorf("seekdisk: Size %d: must be a multiple of %d from 16 MiB", o.Size, pageSize)
	case o.Rate < 1:
		return fmt.Errorf("seekdisk: Rate %d: must be positive", o.Rate)
	case o.TrackBuffer < 0:
		return fmt.Errorf("seekdisk: TrackBuffer %d: must not be negative", o.TrackBuffer)
	case o.Tags < minTags:
		return fmt.Errorf("seekdisk: Tags %d: must be at least %d", o.Tags, minTags)
	case o.NCQ < 1:
		return fmt.Errorf("seekdisk: NCQ %d: must be positive", o.NCQ)
	}
	return nil
}
