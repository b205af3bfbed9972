package uring

import "time"

// Every bound of the package, in one place.
const (
	// entriesMax is the kernel's IORING_MAX_ENTRIES: io_uring_setup(2) answers
	// EINVAL beyond it, or lowers it with IORING_SETUP_CLAMP.
	entriesMax = 32768

	// cqEntriesMax is the kernel's IORING_MAX_CQ_ENTRIES.
	cqEntriesMax = 2 * entriesMax

	// entriesDefault is the submission queue of a zero Config: 8 KiB of SQEs,
	// several batches of 32.
	entriesDefault = 128

	// probeOpsMax is all the opcodes one byte can name; IORING_REGISTER_PROBE
	// refuses more than 256.
	probeOpsMax = 256

	// bufRingEntriesMax is the kernel's bound on IORING_REGISTER_PBUF_RING
	// entries, since buffer IDs and the ring's tail are 16 bits wide.
	bufRingEntriesMax = 32768

	// bufSizeMax bounds one buffer of a BufRing, so that a slip in a
	// configuration does not map the address space full.
	bufSizeMax = 64 << 20

	// closeWaitMax is how long Close waits for cancelled operations. A disk
	// read that has started cannot be cancelled, only awaited.
	closeWaitMax = 5 * time.Second

	// cancelPause is the time between two rounds of cancellation: an
	// operation that is running on a worker when the first round passes may
	// start its link chain's next one.
	cancelPause = 20 * time.Millisecond

	// reapBatch is how many completions a Loop takes at a time: 2 KiB of
	// CQEs, and twice the batch of submissions that amortises an enter.
	reapBatch = 128

	// queueDefault is how many operations may wait for a Loop to place them.
	queueDefault = 1024

	// inFlightDefault is how many operations a Loop keeps in the kernel.
	inFlightDefault = 256

	// inFlightMax leaves half of the largest completion queue to multishot
	// operations and messages.
	inFlightMax = entriesMax

	// retryPause is how long a Loop rests when the kernel takes nothing and
	// has nothing to report: io_uring_enter(2) answered EAGAIN or EBUSY.
	retryPause = time.Millisecond
)
