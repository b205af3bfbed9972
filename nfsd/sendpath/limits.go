package sendpath

import "time"

const (
	// SmallRead is up to how many bytes a read is copied into the reply batch,
	// unless Calibrate has found better. On the machines measured copying and
	// splicing cost the same somewhere between 32 and 128 KiB.
	SmallRead = 32 << 10
	// InlineRead is the most that fits into the batch: what a read is cut to when
	// neither pipe nor buffer is to be had.
	InlineRead = 64 << 10
	// copyBudget bounds the memory of copied reads that are under way, in bytes.
	copyBudget = 64 << 20

	// pipesMax is how many pipes a read may take: 4 MiB with pipes of 1 MiB, and one
	// that begins within a page.
	pipesMax = 5
	// tailMax is how many bytes are copied rather than given a pipe.
	tailMax  = 4096
	pageSize = 4096

	// ringEntries is the submission queue of a ring. How much is under way is
	// bounded by the pipes: a payload has at least one, and two operations for each
	// besides three of its own.
	ringEntries   = 256
	opsPerPipe    = 5
	opsPerPayload = 2*pipesMax + 3

	// sampleEvery is how many large reads of a size there are to one whose cost is
	// looked at; tryRun in a row of tryEvery take the other path, and the last of
	// these is looked at.
	sampleEvery = 64
	tryEvery    = 1024
	tryRun      = 4
	// samplesMin is how many of both there must be for a judgement, and betterBy
	// by how much the other must be cheaper, in percent.
	samplesMin = 32
	betterBy   = 25
	// sampleWeight is the part that a new sample has in the average: one in so many.
	sampleWeight = 16

	// calibrateBytes are sent of one size by one path in one of calibrateRounds,
	// but not more than calibrateOps reads; calibrateMax ends all of it.
	calibrateBytes  = 1 << 20
	calibrateOps    = 48
	calibrateRounds = 3
	calibrateMax    = 80 * time.Millisecond
)
