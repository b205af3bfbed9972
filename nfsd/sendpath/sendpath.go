// Package sendpath is how READ data gets from a file to a socket.
//
// Small reads are copied into the reply batch. Large ones are spliced, file to
// pipe to socket, so that the pages of the page cache leave without a copy: by
// the server thread itself, or the second half through a ring (io_uring), by the
// kernel's workers. Or they are copied through a buffer, where that is asked for,
// cheaper, or splice cannot be had. The bytes on the wire are the same.
//
// sendpath.go chooses the path; spliced.go, ringed.go and copied.go are the
// payloads; class.go is what is known of each size, calibrate.go how it is found
// out at start and watch.go what is seen later.
package sendpath

import (
	"fmt"
	"log/slog"
	"sync/atomic"

	"sluice/ioctx"
	"sluice/rpc"
	"sluice/uring"
)

// Mode is the operator's choice of send path.
type Mode int

const (
	// Auto takes the path that costs least, by size.
	Auto Mode = iota
	// Splice copies reads of up to SmallRead into the batch and splices the rest.
	Splice
	// Uring is like Splice, and what is in the pipe leaves through a ring.
	Uring
	// Copy never splices.
	Copy
)

var modes = []string{"auto", "splice", "uring", "copy"}

func (m Mode) String() string { return modes[m] }

// ParseMode reads a mode's name.
func ParseMode(s string) (Mode, error) {
	for i, name := range modes {
		if s == name {
			return Mode(i), nil
		}
	}
	return 0, fmt.Errorf("send path %q: must be auto, splice, uring or copy", s)
}

// Config says how a Sender works.
type Config struct {
	Mode Mode
	// Lanes is the number of rings, 0 meaning 1: one for each node.
	Lanes int
	// OnThread runs on the thread of each ring before that is made, to pin it;
	// RingCPUs are the CPUs for its io-wq workers, empty for any. Both may be nil.
	OnThread func(lane int) error
	RingCPUs func(lane int) []int
	// NoRing does without io_uring, as where the kernel has none.
	NoRing bool
	// Log receives what the operator should know. Required.
	Log *slog.Logger

	// Amend makes the header of a reply to READ say that n bytes of the file follow
	// from off on, or err. Its record mark counts them and their padding. It changes
	// what it is given.
	Amend func(head []byte, fd int, off int64, n int, err error) []byte

	newQueue func() (uring.Queue, error) // another than the kernel's, in tests
}

// Sender makes payloads.
type Sender struct {
	cfg     Config
	io      *ioctx.Context
	rings   []*ring
	small   atomic.Int32 // SmallLimit, found by Calibrate
	classes [classes]class
	copied  atomic.Int64 // bytes of buffers in use
	note    atomic.Pointer[string]
	counters
}

// New returns a Sender that takes its pipes from io. Close it when nothing is
// being sent any more.
func New(cfg Config, io *ioctx.Context) *Sender {
	s := &Sender{cfg: cfg, io: io}
	s.small.Store(SmallRead)
	first := pathSplice
	if cfg.Mode == Copy {
		first = pathCopy
	}
	if cfg.Mode == Uring && s.openRings() {
		first = pathUring
	}
	for i := range s.classes {
		s.classes[i].path.Store(int32(first))
	}
	return s
}

// openRings starts the rings; without them everything is spliced.
func (s *Sender) openRings() bool {
	for i := range max(1, s.cfg.Lanes) {
		r, err := s.startRing(i)
		if err != nil {
			s.closeRings()
			s.remark("no io_uring: spliced by the server threads", "error", err)
			return false
		}
		s.rings = append(s.rings, r)
	}
	return true
}

func (s *Sender) closeRings() {
	for _, r := range s.rings {
		r.close()
	}
	s.rings = nil
}

// Close ends the rings.
func (s *Sender) Close() { s.closeRings() }

// remark tells the operator, in the log and in the status, that things are not as
// asked for.
func (s *Sender) remark(msg string, args ...any) {
	s.note.Store(&msg)
	s.cfg.Log.Warn("send path: "+msg, args...)
}

// Mode returns the mode.
func (s *Sender) Mode() Mode { return s.cfg.Mode }

// SmallLimit is up to how many bytes the caller should read into the batch.
func (s *Sender) SmallLimit() int {
	if s.cfg.Mode == Copy {
		return InlineRead
	}
	return int(s.small.Load())
}

// Read returns a payload with up to n bytes of the file at off: fewer only if
// the file ends or no pipe holds as many. It waits for the disk if the range is
// not in the page cache. A nil payload without error means that there is no room
// for one; the caller reads InlineRead bytes instead. lane is the caller's, for
// one ring or another. A payload that is Unfilled wants the file, and may turn out
// shorter; with mayWait there is none, since then the disk is waited for here.
func (s *Sender) Read(lane, fd int, off int64, n int, mayWait bool) (rpc.Payload, error) {
	path, seen := s.choose(s.class(n))
	p, err := s.make(path, lane, fd, off, n, mayWait, seen)
	if err == nil || path == pathCopy {
		return p, err
	}
	if err == ioctx.ErrNoPipe {
		s.NoPipe.Add(1)
	} else {
		s.Refused.Add(1)
	}
	return s.copy(fd, off, n, sample{})
}

// make makes the payload of a path.
func (s *Sender) make(p path, lane, fd int, off int64, n int, mayWait bool, m sample) (rpc.Payload, error) {
	switch p {
	case pathUring:
		return s.viaRing(lane, fd, off, n, mayWait)
	case pathCopy:
		return s.copy(fd, off, n, m)
	}
	return s.splice(fd, off, n, m)
}
