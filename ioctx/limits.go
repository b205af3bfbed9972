package ioctx

import "time"

const (
	// idlePipes is how many empty pipes the pool keeps for the next reader.
	idlePipes = 64
	// pipeSize is what a pipe is asked to hold, in bytes. A pipe holds one page
	// of a file per slot, so a read of n bytes that does not start at a page's
	// beginning needs a page more; the kernel rounds up to a power of two, and
	// refuses more than fs.pipe-max-size (1 MiB) without CAP_SYS_RESOURCE.
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
)
