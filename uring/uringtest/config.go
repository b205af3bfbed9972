package uringtest

import "sluice/uring"

// Config says how a [Ring] behaves. The zero value makes an orderly ring of
// the usual size, whose completions come in a shuffled order all the same.
type Config struct {
	// Seed decides every choice.
	Seed uint64
	// Entries is the size of the submission queue, 0 for 32, and CQEntries
	// that of the completion queue, 0 for twice Entries. Completions that
	// find it full overflow, and come when there is room.
	Entries, CQEntries int
	// Faults are what goes wrong.
	Faults Faults
	// Exec, if it reports true, replaces an operation: its result is res.
	Exec func(s *uring.SQE) (res int32, ok bool)
	// Log is told what the ring does, if not nil: testing.T.Logf.
	Log func(format string, args ...any)
}

// Faults are probabilities, 0 to 1, each asked once per occasion.
type Faults struct {
	Short   float64 // a transfer is cut to a part, at least one byte
	EAGAIN  float64 // a transfer fails so, nothing done
	EINTR   float64 // likewise
	ENOBUFS float64 // a send or an operation with provided buffers fails so
	EIO     float64 // an operation on a file fails so, nothing done
	Delay   float64 // an operation that could complete does so later; below 1

	PartialSubmit float64 // a submission takes only part, even of a chain
	EnterEAGAIN   float64 // a submission fails so, nothing taken
	EnterEBUSY    float64 // likewise
	EarlyWait     float64 // a wait ends before its time

	TooLate      float64 // a cancellation answers -EALREADY and cancels nothing
	EndMultishot float64 // a multishot operation ends with this completion
}

// AllFaults has every fault with probability p. Sends and receives survive
// long enough to get somewhere if p is below about a third.
func AllFaults(p float64) Faults {
	return Faults{
		Short: p, EAGAIN: p, EINTR: p, ENOBUFS: p, EIO: p, Delay: p,
		PartialSubmit: p, EnterEAGAIN: p, EnterEBUSY: p, EarlyWait: p,
		TooLate: p, EndMultishot: p,
	}
}

const (
	entriesDefault = 32

	// stepsMax bounds the completions that come beyond those waited for.
	stepsMax = 4
)
