package uring

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"
)

// oldKernel is an io_uring_setup that does not know some flags.
func oldKernel(unknown uint32) func(uint32, *io_uring_params) (int, unix.Errno) {
	return func(_ uint32, p *io_uring_params) (int, unix.Errno) {
		if p.flags&unknown != 0 || validFlags(p.flags) != nil {
			return -1, unix.EINVAL
		}
		return 7, 0
	}
}

func validFlags(flags uint32) error { return Config{Entries: 1, CQEntries: 1, Flags: flags}.validate() }

func TestOptionalFlags(t *testing.T) {
	const (
		since66 = IORING_SETUP_NO_SQARRAY
		since61 = since66 | IORING_SETUP_DEFER_TASKRUN
		since60 = since61 | IORING_SETUP_SINGLE_ISSUER
		since51 = since60 | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_COOP_TASKRUN | IORING_SETUP_SUBMIT_ALL
	)
	for _, c := range []struct {
		unknown, want uint32
	}{
		{0, RecommendedFlags},
		{since66, RecommendedFlags &^ since66},
		// Without DEFER_TASKRUN nothing needs TASKRUN_FLAG.
		{since61, IORING_SETUP_CLAMP | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_SINGLE_ISSUER},
		{since60, IORING_SETUP_CLAMP | IORING_SETUP_SUBMIT_ALL},
		{since51, IORING_SETUP_CLAMP},
		{since51 | IORING_SETUP_CLAMP, 0},
	} {
		_, p, err := Config{}.withDefaults().setup(oldKernel(c.unknown))
		if err != nil || p.flags != c.want {
			t.Errorf("without %#x: %v, %s, want %s", c.unknown, err, setupFlagNames(p.flags), setupFlagNames(c.want))
		}
	}
}

func TestRequiredFlags(t *testing.T) {
	cfg := Config{Flags: IORING_SETUP_NO_SQARRAY, Optional: IORING_SETUP_CLAMP}.withDefaults()
	_, _, err := cfg.setup(oldKernel(IORING_SETUP_NO_SQARRAY))
	if !errors.Is(err, unix.EINVAL) || !strings.Contains(err.Error(), "IORING_SETUP_NO_SQARRAY") {
		t.Errorf("a required flag that is unknown: %v", err)
	}
	calls := 0
	_, _, err = Config{}.withDefaults().setup(func(uint32, *io_uring_params) (int, unix.Errno) {
		calls++
		return -1, unix.ENOMEM
	})
	if !errors.Is(err, unix.ENOMEM) || calls != 1 {
		t.Errorf("ENOMEM: %v after %d calls", err, calls)
	}
}

func TestRequiredFeatures(t *testing.T) {
	const all = IORING_FEAT_SINGLE_MMAP | IORING_FEAT_NODROP | IORING_FEAT_SUBMIT_STABLE | IORING_FEAT_EXT_ARG
	if err := requireFeatures(all); err != nil {
		t.Error(err)
	}
	err := requireFeatures(all &^ IORING_FEAT_EXT_ARG)
	if !errors.Is(err, ErrNotSupported) || !errors.Is(err, errors.ErrUnsupported) || err.Error() != "uring: this kernel does not support IORING_FEAT_EXT_ARG" {
		t.Error(err)
	}
}

func TestSetupHint(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	for _, c := range []struct {
		name  string
		proc  fstest.MapFS
		want  []string
		lacks string
	}{
		{"allowed", fstest.MapFS{"sys/kernel/io_uring_disabled": file("0\n"), "self/status": file("Name:\tx\nSeccomp:\t0\n")},
			nil, "here"},
		{"group", fstest.MapFS{"sys/kernel/io_uring_disabled": file("1\n"), "sys/kernel/io_uring_group": file("42\n")},
			[]string{"kernel.io_uring_disabled is 1", "(42)"}, "seccomp"},
		{"disabled", fstest.MapFS{"sys/kernel/io_uring_disabled": file("2\n")},
			[]string{"kernel.io_uring_disabled is 2: no process"}, "seccomp"},
		{"container", fstest.MapFS{"sys/kernel/io_uring_disabled": file("0\n"), "self/status": file("Seccomp:\t2\nSeccomp_filters:\t1\n")},
			[]string{"seccomp filter", "io_uring_enter"}, "io_uring_disabled"},
		{"old kernel", fstest.MapFS{}, []string{"before Linux 6.6"}, "seccomp"},
	} {
		got := setupHint(c.proc)
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q lacks %q", c.name, got, want)
			}
		}
		if strings.Contains(got, c.lacks) {
			t.Errorf("%s: %q has %q", c.name, got, c.lacks)
		}
	}
}

// TestErrnoTable: everything that the manual pages list is explained, and a
// failed start names what to look at.
func TestErrnoTable(t *testing.T) {
	for call, errnos := range map[string][]unix.Errno{
		callSetup: {unix.EFAULT, unix.EINVAL, unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EPERM, unix.ENXIO, unix.ENOSYS},
		callEnter: {unix.EAGAIN, unix.EBADF, unix.EBADFD, unix.EBADR, unix.EBUSY, unix.EEXIST, unix.EINVAL,
			unix.EFAULT, unix.ENXIO, unix.EOPNOTSUPP, unix.EINTR, unix.EOWNERDEAD, unix.ETIME},
		callRegister: {unix.EACCES, unix.EBADF, unix.EBADFD, unix.EBUSY, unix.EEXIST, unix.EFAULT, unix.EINVAL,
			unix.EMFILE, unix.ENOENT, unix.ENOMEM, unix.ENXIO, unix.EOPNOTSUPP},
	} {
		for _, errno := range errnos {
			if (&Error{Call: call, Errno: errno}).Explain() == "" {
				t.Errorf("%s: no word on %v", call, errno)
			}
		}
	}
	for errno, want := range map[unix.Errno]string{
		unix.EPERM: "kernel.io_uring_disabled", unix.ENOMEM: "RLIMIT_MEMLOCK", unix.EMFILE: "RLIMIT_NOFILE",
		unix.ENFILE: "fs.file-max", unix.ENOSYS: "seccomp",
	} {
		err := setupError(errno, 0)
		if !strings.Contains(err.Error(), want) || !errors.Is(err, errno) {
			t.Errorf("%v does not name %s", err, want)
		}
		if errors.Is(err, ErrNotSupported) != (errno == unix.ENOSYS) {
			t.Errorf("%v: ErrNotSupported", err)
		}
	}
	err := &Error{Call: callRegister, What: IORING_REGISTER_FILES.String(), Errno: unix.EMFILE}
	if got := err.Error(); got != "uring: io_uring_register(IORING_REGISTER_FILES): too many open files: more descriptors than RLIMIT_NOFILE allows" {
		t.Error(got)
	}
}

// TestSever: when the kernel takes only part of a chain, what is left of it
// fails instead of running.
func TestSever(t *testing.T) {
	r, err := New(Config{})
	if err != nil {
		t.Skip(err)
	}
	defer r.Close()
	for i := range uint64(4) {
		s := r.NextSQE()
		s.UserData = i
		if i < 3 {
			s.Flags = IOSQE_IO_LINK
		}
	}
	// Submit two of the four, as if memory had run out.
	r.m.storeSQTail(r.sqTail)
	if errno := r.enter(2, 0, IORING_ENTER_GETEVENTS, 0); errno != 0 {
		t.Fatal(errno)
	}
	if n := r.take(); n != 2 || r.Counts() != (Counts{Queued: 2, InKernel: 2}) {
		t.Fatalf("%d taken, %+v", n, r.Counts())
	}
	if _, err := r.SubmitAndWait(4, -1); err != nil {
		t.Fatal(err)
	}
	var got [4]int32
	var cqes [5]CQE
	for _, c := range cqes[:r.Reap(cqes[:])] {
		got[c.UserData] = c.Res
	}
	if want := [4]int32{0, 0, -int32(unix.EINVAL), -int32(unix.ECANCELED)}; got != want {
		t.Errorf("results %v, want %v", got, want)
	}
}

func TestProbe(t *testing.T) {
	p, err := NewProbe()
	if err != nil {
		t.Skip(err)
	}
	if p.Op(IORING_OP_NOP) != Supported || p.Op(250) != NotSupported {
		t.Errorf("NOP %v, operation 250 %v", p.Op(IORING_OP_NOP), p.Op(250))
	}
	if p.Feature(IORING_FEAT_NODROP) != Supported || p.Feature(1<<31) != NotSupported {
		t.Error("features")
	}
	if p.Setup(IORING_SETUP_CLAMP) != Supported || p.Setup(IORING_SETUP_IOPOLL) != CouldNotTell {
		t.Error("set-up flags")
	}
	err = p.RequireOps(IORING_OP_READ, 250, 251)
	if !errors.Is(err, ErrNotSupported) || !strings.Contains(err.Error(), "Opcode(250)") || !strings.Contains(err.Error(), "Opcode(251)") {
		t.Error(err)
	}
	p.register[IORING_REGISTER_PBUF_RING] = NotSupported
	p.setup[IORING_SETUP_DEFER_TASKRUN] = NotSupported
	if err := p.RequireRegister(IORING_REGISTER_PBUF_RING); err == nil || !strings.Contains(err.Error(), "IORING_REGISTER_PBUF_RING") {
		t.Error(err)
	}
	if err := p.RequireSetup(RecommendedFlags); err == nil || !strings.Contains(err.Error(), "IORING_SETUP_DEFER_TASKRUN") {
		t.Error(err)
	}
	var none Probe
	if none.Op(IORING_OP_NOP) != CouldNotTell || none.RequireOps(IORING_OP_NOP) != nil {
		t.Error("what a probe could not tell must pass")
	}
	if s := Supported.String() + NotSupported.String() + CouldNotTell.String(); s != "supportednot supportedcould not tell" {
		t.Error(s)
	}
}
