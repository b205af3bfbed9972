package ioctx

import "time"

const (
	// idlePipes is how many empty pipes the pool keeps for the next reader.
	idlePipes = 64
	// pipeSize is what a pipe is asked to hold, in bytes, unless Pipes.Size says
	// more, and where more is refused. A pipe holds one page of a file per slot, so
	// a read of n bytes that does not start at a page's beginning needs a page
	// more; the kernel rounds up to a power of two, and refuses more than
	// fs.pipe-max-size (1 MiB) without CAP_SYS_RESOURCE.
	pipeSize = 1 << 20
	// pipeSizeMin is the least that is worth having; below it reads are copied.
	pipeSizeMin = 64 << 10

	// fileShards spreads the open files over locks.
	fileShards = 64
	// sweepEvery is how often idle files are looked for, sweepAge after how many
	// such periods without use one is closed, so that no file system stays busy
	// for longer than a few seconds after its last use.
	sweepEvery = time.Second
	sweepAge   = 4
	// evictSample is how many files are looked at to find an old one when the
	// cache is full.
	evictSample = 8

	// reorderRequests and reorderBytes are how far from its place in a stream a
	// request may come: clients have up to 64 slots on each connection.
	reorderRequests = 256
	reorderBytes    = 64 << 20
	// sequentialBytes in two READs in a row make a stream.
	sequentialBytes = 256 << 10
	// runRequests in a row beyond a hole are a run of their own, unless the hole is
	// no larger than holeRequests; then what is missing will come, or is in the
	// client's cache.
	runRequests  = 8
	holeRequests = 64
	// aheadMax is how many separate ranges beyond a stream's base are kept.
	aheadMax = 256
	// streamsPerFile bounds what is kept of readers who jump about.
	streamsPerFile = 16
	// streamIdle ends a stream that nobody reads on.
	streamIdle = 10 * time.Second

	// windowFirst and windowStartMax bound the first window of a stream, in bytes;
	// windowSteady is the least that one grows to that goes on, windowMax the most.
	// Two streams of 16 MiB reach 0.9 of a rotational disk (docs/io-context.md).
	windowFirst    = 256 << 10
	windowStartMax = 4 << 20
	windowSteady   = 16 << 20
	windowMax      = 64 << 20
	// windowRecover is by how much what a loss has left grows at each step.
	windowRecover = 256 << 10
	// rateOver is the time over which a stream's consumption is averaged.
	rateOver = 50 * time.Millisecond

	// unitMax is the most that is read as one: with 1 or 2 MiB the block layer
	// merges neighbours into requests of 3 MiB, with 4 MiB it split them.
	unitMax = 2 << 20
	unitMin = 128 << 10
	// unitsInFlight is how many units of streams a device reads at once.
	unitsInFlight = 3
	// demandsMax is how many ranges asked for by themselves it reads at once.
	demandsMax = 32
	// turnBytes and turnTime end a stream's turn while others wait: the seek
	// between two turns costs a tenth of one. So a stream waits for (streams - 1)
	// x turnTime, and one unit of each.
	turnBytes = 16 << 20
	turnTime  = 150 * time.Millisecond

	// failuresMax units in a row that the page cache did not take mean that this
	// file is not cached at all.
	failuresMax = 4
	// giveUpAfter is how long a READ waits for a device; then its client is told
	// to come back later, and so is whoever asks for the device until it answers.
	giveUpAfter = 10 * time.Second

	// closePatience is how long Close waits for what is under way.
	closePatience = 2 * time.Second

	// ringEntries and opsInFlight size a submitter's ring; more than opsInFlight
	// wait. workersMax bounds its io-wq workers: a device that hangs keeps up to
	// demandsMax + unitsInFlight of them.
	ringEntries = 256
	opsInFlight = 1024
	opsQueued   = 4096
	workersMax  = 128
)
