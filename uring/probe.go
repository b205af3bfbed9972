package uring

import (
	"errors"
	"math/bits"

	"golang.org/x/sys/unix"
)

// Support is what a probe found out.
type Support int

const (
	CouldNotTell Support = iota // something unrelated was in the way
	Supported
	NotSupported
)

func (s Support) String() string {
	switch s {
	case Supported:
		return "supported"
	case NotSupported:
		return "not supported"
	}
	return "could not tell"
}

// Probe knows what the running kernel's io_uring can do. All answers come from
// asking the kernel, none from its version: distributions carry features back
// and leave others out. A Probe does not change and may be shared.
type Probe struct {
	features  uint32
	opsKnown  bool
	ops       [probeOpsMax]bool
	setup     map[uint32]Support
	register  map[RegisterOp]Support
	multishot map[Opcode]Support
}

// NewProbe asks the kernel, through rings of a few entries that are gone when
// it returns. It fails if no ring can be made at all; the [*Error] says why.
func NewProbe() (p *Probe, err error) {
	done := make(chan struct{})
	onNewThread(func() {
		defer close(done)
		p, err = newProbe()
	})
	<-done
	return p, err
}

func newProbe() (*Probe, error) {
	r, err := New(Config{Entries: 4, Flags: IORING_SETUP_CQSIZE, CQEntries: 16})
	if err != nil {
		return nil, err
	}
	defer r.Close()
	p := &Probe{
		features:  r.features,
		setup:     make(map[uint32]Support),
		register:  make(map[RegisterOp]Support),
		multishot: make(map[Opcode]Support),
	}
	p.probeOps(r)
	p.probeSetup(r)
	for _, c := range registerProbes {
		p.register[c.op] = verdict(c.try(r))
	}
	p.probeMultishot(r)
	return p, nil
}

// verdict reads an error: EINVAL is how the kernel answers what it does not
// know, and the probes give it nothing else to object to.
func verdict(err error) Support {
	switch {
	case err == nil:
		return Supported
	case errors.Is(err, unix.EINVAL):
		return NotSupported
	}
	return CouldNotTell
}

func (p *Probe) probeOps(r *Ring) {
	var arg io_uring_probe
	if _, err := registerArg(r.fd, IORING_REGISTER_PROBE, &arg, len(arg.ops)); err != nil {
		return
	}
	p.opsKnown = true
	for _, op := range arg.ops[:arg.ops_len] {
		p.ops[op.op] = op.flags&IO_URING_OP_SUPPORTED != 0
	}
}

// probeSetup makes a ring with each flag, together with what it needs.
func (p *Probe) probeSetup(r *Ring) {
	for flag := uint32(1); flag <= flagsHandled; flag <<= 1 {
		if flagsHandled&flag == 0 {
			continue
		}
		cfg := Config{Entries: 4, Flags: flag}
		for _, rule := range flagRules {
			if rule.flag == flag {
				cfg.Flags |= rule.needs & -rule.needs // any one of them
			}
		}
		switch flag {
		case IORING_SETUP_CQSIZE:
			cfg.CQEntries = 8
		case IORING_SETUP_ATTACH_WQ:
			cfg.WQFD = r.fd
		case IORING_SETUP_SQ_AFF:
			cfg.SQThreadCPU = anyCPU()
		}
		fd, _, err := cfg.setup(setup)
		if err == nil {
			unix.Close(fd)
		}
		p.setup[flag] = verdict(err)
	}
}

// anyCPU returns a CPU this thread may run on. The kernel refuses others.
func anyCPU() uint32 {
	var cpus unix.CPUSet
	if err := unix.SchedGetaffinity(0, &cpus); err != nil {
		return 0
	}
	cpu := 0
	for !cpus.IsSet(cpu) {
		cpu++
	}
	return uint32(cpu)
}

// registerProbes try the commands of io_uring_register(2) that are younger
// than what New requires, in ways that leave no trace.
var registerProbes = []struct {
	op  RegisterOp
	try func(*Ring) error
}{
	{IORING_REGISTER_IOWQ_MAX_WORKERS, func(r *Ring) error {
		_, _, err := r.RegisterIOWQMaxWorkers(0, 0)
		return err
	}},
	{IORING_REGISTER_IOWQ_AFF, func(r *Ring) error {
		var cpus unix.CPUSet
		if err := unix.SchedGetaffinity(0, &cpus); err != nil {
			return err
		}
		return errors.Join(r.RegisterIOWQAff(&cpus), r.UnregisterIOWQAff())
	}},
	{IORING_REGISTER_FILES2, func(r *Ring) error {
		return errors.Join(r.RegisterFilesSparse(1), r.UnregisterFiles())
	}},
	{IORING_REGISTER_BUFFERS2, func(r *Ring) error {
		return errors.Join(r.RegisterBuffersSparse(1), r.UnregisterBuffers())
	}},
	{IORING_REGISTER_RING_FDS, func(r *Ring) error {
		if err := r.RegisterRingFD(); err != nil {
			return err
		}
		return r.UnregisterRingFD()
	}},
	{IORING_REGISTER_PBUF_RING, func(r *Ring) error {
		b, err := r.NewBufRing(0, 1, 1)
		if err != nil {
			return err
		}
		return b.Close()
	}},
	{IORING_REGISTER_SEND_MSG_RING, func(r *Ring) error {
		if err := r.Message(0, Uncounted); err != nil {
			return err
		}
		_, err := r.reapOne()
		return err
	}},
}

// reapOne waits for one completion.
func (r *Ring) reapOne() (CQE, error) {
	var c [1]CQE
	for {
		if _, err := r.SubmitAndWait(1, -1); err != nil {
			return CQE{}, err
		}
		if r.Reap(c[:]) == 1 {
			return c[0], nil
		}
	}
}

// probeMultishot prepares multishot operations that must fail at once: an old
// kernel objects to the flag, a new one to what is missing.
func (p *Probe) probeMultishot(r *Ring) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	if _, err := unix.Write(fds[1], []byte{0}); err != nil {
		return
	}
	const noGroup = 0xffff
	r.NextSQE().PrepRecvMultishot(fds[0], 0, noGroup)
	if c, err := r.reapOne(); err == nil {
		p.multishot[IORING_OP_RECV] = multishotVerdict(c, unix.ENOBUFS)
	}
	// A pair's end does not listen, which the kernel finds with EINVAL, its
	// word for an unknown flag too; so no socket at all.
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return
	}
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	r.NextSQE().PrepAcceptMultishot(pipe[0], 0)
	if c, err := r.reapOne(); err == nil {
		p.multishot[IORING_OP_ACCEPT] = multishotVerdict(c, unix.ENOTSOCK)
	}
}

func multishotVerdict(c CQE, want unix.Errno) Support {
	if c.Err() == error(want) {
		return Supported
	}
	return verdict(c.Err())
}

// Op says whether the kernel has operation op.
func (p *Probe) Op(op Opcode) Support {
	if !p.opsKnown {
		return CouldNotTell
	}
	if p.ops[op] {
		return Supported
	}
	return NotSupported
}

// Feature says whether the kernel has all IORING_FEAT_* bits in features.
func (p *Probe) Feature(features uint32) Support {
	if p.features&features == features {
		return Supported
	}
	return NotSupported
}

// Setup says whether the kernel has the IORING_SETUP_* flag.
func (p *Probe) Setup(flag uint32) Support { return p.setup[flag] }

// Register says whether the kernel has the command of io_uring_register(2),
// for the commands that [Ring] has methods for and that an old kernel may
// lack.
func (p *Probe) Register(op RegisterOp) Support { return p.register[op] }

// Multishot says whether the kernel has the multishot form of IORING_OP_RECV
// or IORING_OP_ACCEPT.
func (p *Probe) Multishot(op Opcode) Support { return p.multishot[op] }

// RequireOps returns nil if no operation is known to be missing, or else an
// error that names those that are, one [*NotSupportedError] each.
func (p *Probe) RequireOps(ops ...Opcode) error {
	var errs []error
	for _, op := range ops {
		if p.Op(op) == NotSupported {
			errs = append(errs, &NotSupportedError{Name: op.String()})
		}
	}
	return errors.Join(errs...)
}

// RequireSetup is RequireOps for IORING_SETUP_* flags.
func (p *Probe) RequireSetup(flags uint32) error {
	var errs []error
	for ; flags != 0; flags &= flags - 1 {
		flag := uint32(1) << bits.TrailingZeros32(flags)
		if p.Setup(flag) == NotSupported {
			errs = append(errs, &NotSupportedError{Name: setupName(flag)})
		}
	}
	return errors.Join(errs...)
}

// RequireRegister is RequireOps for commands of io_uring_register(2).
func (p *Probe) RequireRegister(ops ...RegisterOp) error {
	var errs []error
	for _, op := range ops {
		if p.Register(op) == NotSupported {
			errs = append(errs, &NotSupportedError{Name: op.String()})
		}
	}
	return errors.Join(errs...)
}
