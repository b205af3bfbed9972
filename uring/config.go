package uring

import (
	"fmt"
	"math/bits"
	"time"

	"golang.org/x/sys/unix"
)

// Config says what ring to make. Its zero value makes a small ring with
// [RecommendedFlags].
type Config struct {
	// Entries is the size of the submission queue, 1 to 32768; the kernel
	// rounds up to a power of two. 0 means 128.
	Entries uint32
	// CQEntries is the size of the completion queue, at least Entries. 0
	// leaves it at twice Entries. Setting it implies IORING_SETUP_CQSIZE.
	CQEntries uint32
	// Flags are the IORING_SETUP_* flags that must be honoured.
	Flags uint32
	// Optional are flags dropped, the youngest first, where the kernel does
	// not know them; Ring.Flags tells what was kept. Only flags of
	// RecommendedFlags and IORING_SETUP_COOP_TASKRUN are ever dropped. If
	// Flags and Optional are both 0, Optional is RecommendedFlags.
	Optional uint32
	// SQThreadCPU is the CPU of the polling thread with IORING_SETUP_SQ_AFF.
	SQThreadCPU uint32
	// SQThreadIdle is how long the polling thread spins before it sleeps; 0
	// is the kernel's second.
	SQThreadIdle time.Duration
	// WQFD is another ring's descriptor, whose io-wq workers (and polling
	// thread) this one shares, with IORING_SETUP_ATTACH_WQ.
	WQFD int
}

// RecommendedFlags suit a ring with one owner that submits and reaps in
// batches. They are safe with the contract of [Queue]: completions appear in
// SubmitAndWait.
const RecommendedFlags = IORING_SETUP_CLAMP | IORING_SETUP_SUBMIT_ALL |
	IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SINGLE_ISSUER |
	IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_NO_SQARRAY

// flagsHandled are the set-up flags whose effects this package knows. The
// others change the size of the entries, who owns the memory or how
// completions are found.
const flagsHandled = IORING_SETUP_SQPOLL | IORING_SETUP_SQ_AFF |
	IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP | IORING_SETUP_ATTACH_WQ |
	IORING_SETUP_R_DISABLED | IORING_SETUP_SUBMIT_ALL |
	IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG |
	IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
	IORING_SETUP_NO_SQARRAY

// setupNames names the flags in errors, by bit.
var setupNames = [...]string{
	"IORING_SETUP_IOPOLL", "IORING_SETUP_SQPOLL", "IORING_SETUP_SQ_AFF",
	"IORING_SETUP_CQSIZE", "IORING_SETUP_CLAMP", "IORING_SETUP_ATTACH_WQ",
	"IORING_SETUP_R_DISABLED", "IORING_SETUP_SUBMIT_ALL",
	"IORING_SETUP_COOP_TASKRUN", "IORING_SETUP_TASKRUN_FLAG",
	"IORING_SETUP_SQE128", "IORING_SETUP_CQE32", "IORING_SETUP_SINGLE_ISSUER",
	"IORING_SETUP_DEFER_TASKRUN", "IORING_SETUP_NO_MMAP",
	"IORING_SETUP_REGISTERED_FD_ONLY", "IORING_SETUP_NO_SQARRAY",
	"IORING_SETUP_HYBRID_IOPOLL", "IORING_SETUP_CQE_MIXED",
}

func setupName(flag uint32) string {
	if i := bits.TrailingZeros32(flag); i < len(setupNames) {
		return setupNames[i]
	}
	return fmt.Sprintf("set-up flag %#x", flag)
}

func (c Config) withDefaults() Config {
	if c.Entries == 0 {
		c.Entries = entriesDefault
	}
	if c.Flags == 0 && c.Optional == 0 {
		c.Optional = RecommendedFlags
	}
	if c.CQEntries != 0 {
		c.Flags |= IORING_SETUP_CQSIZE
	}
	c.Optional &^= c.Flags
	return c
}

// validate finds here what the kernel would only answer EINVAL to.
func (c Config) validate() error {
	all := c.Flags | c.Optional
	if bad := all &^ flagsHandled; bad != 0 {
		return fmt.Errorf("uring: Config.Flags: this package does not handle %s", setupName(bad))
	}
	if c.Entries > entriesMax && all&IORING_SETUP_CLAMP == 0 {
		return fmt.Errorf("uring: Config.Entries: %d is beyond the kernel's %d (or set IORING_SETUP_CLAMP)", c.Entries, entriesMax)
	}
	if all&IORING_SETUP_CQSIZE != 0 && (c.CQEntries < c.Entries || c.CQEntries > cqEntriesMax && all&IORING_SETUP_CLAMP == 0) {
		return fmt.Errorf("uring: Config.CQEntries: %d is not from Entries (%d) to %d", c.CQEntries, c.Entries, cqEntriesMax)
	}
	if c.SQThreadIdle < 0 || c.SQThreadIdle > 0 && c.SQThreadIdle < time.Millisecond {
		return fmt.Errorf("uring: Config.SQThreadIdle: %v is not 0 or at least 1ms", c.SQThreadIdle)
	}
	for _, rule := range flagRules {
		if all&rule.flag == 0 {
			continue
		}
		if rule.needs != 0 && all&rule.needs == 0 {
			return fmt.Errorf("uring: Config.Flags: %s needs %s", setupName(rule.flag), setupName(rule.needs))
		}
		if not := all & rule.excludes; not != 0 {
			return fmt.Errorf("uring: Config.Flags: %s excludes %s", setupName(rule.flag), setupName(not))
		}
	}
	return nil
}

// flagRules are the combinations io_uring_setup(2) refuses. needs is any one
// of the flags, excludes all.
var flagRules = [...]struct{ flag, needs, excludes uint32 }{
	{flag: IORING_SETUP_SQ_AFF, needs: IORING_SETUP_SQPOLL},
	{flag: IORING_SETUP_DEFER_TASKRUN, needs: IORING_SETUP_SINGLE_ISSUER},
	{flag: IORING_SETUP_TASKRUN_FLAG, needs: IORING_SETUP_COOP_TASKRUN | IORING_SETUP_DEFER_TASKRUN},
	{flag: IORING_SETUP_SQPOLL, excludes: IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_DEFER_TASKRUN},
}

// optionalByAge has the flags that may be dropped, the youngest first, with
// the release that brought each for the reader; the code asks the kernel.
// Without the other flags a ring would be another thing than was asked for.
var optionalByAge = [...]uint32{
	IORING_SETUP_NO_SQARRAY,    // 6.6
	IORING_SETUP_DEFER_TASKRUN, // 6.1
	IORING_SETUP_SINGLE_ISSUER, // 6.0
	IORING_SETUP_TASKRUN_FLAG,  // 5.19
	IORING_SETUP_COOP_TASKRUN,  // 5.19
	IORING_SETUP_SUBMIT_ALL,    // 5.18
	IORING_SETUP_CLAMP,         // 5.6
}

// setup calls io_uring_setup(2), dropping optional flags while the kernel
// answers EINVAL.
func (c Config) setup(call func(uint32, *io_uring_params) (int, unix.Errno)) (int, *io_uring_params, error) {
	flags := c.Flags | c.Optional
	for _, drop := range append(optionalByAge[:], 0) {
		p := c.params(flags)
		fd, errno := call(c.Entries, p)
		if errno == 0 {
			return fd, p, nil
		}
		if errno != unix.EINVAL || c.Optional&flags == 0 {
			return -1, nil, setupError(errno, flags)
		}
		flags &^= drop & c.Optional
		if flags&(IORING_SETUP_COOP_TASKRUN|IORING_SETUP_DEFER_TASKRUN) == 0 {
			flags &^= IORING_SETUP_TASKRUN_FLAG & c.Optional
		}
	}
	return -1, nil, setupError(unix.EINVAL, flags)
}

func (c Config) params(flags uint32) *io_uring_params {
	p := &io_uring_params{
		flags:          flags,
		cq_entries:     c.CQEntries,
		sq_thread_cpu:  c.SQThreadCPU,
		sq_thread_idle: uint32(c.SQThreadIdle.Milliseconds()),
	}
	if flags&IORING_SETUP_ATTACH_WQ != 0 {
		p.wq_fd = uint32(c.WQFD)
	}
	return p
}

// requireFeatures refuses kernels on which the package would not be sound:
// without NODROP completions are lost (before 5.5), without EXT_ARG a wait
// has no timeout (before 5.11).
func requireFeatures(have uint32) error {
	for _, f := range [...]struct {
		bit  uint32
		name string
	}{
		{IORING_FEAT_SINGLE_MMAP, "IORING_FEAT_SINGLE_MMAP"},
		{IORING_FEAT_NODROP, "IORING_FEAT_NODROP"},
		{IORING_FEAT_SUBMIT_STABLE, "IORING_FEAT_SUBMIT_STABLE"},
		{IORING_FEAT_EXT_ARG, "IORING_FEAT_EXT_ARG"},
	} {
		if have&f.bit == 0 {
			return &NotSupportedError{Name: f.name}
		}
	}
	return nil
}
