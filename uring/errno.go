package uring

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrNotSupported is what errors.Is finds in the error of anything this
// kernel lacks. It wraps errors.ErrUnsupported.
var ErrNotSupported = fmt.Errorf("uring: not supported by this kernel: %w", errors.ErrUnsupported)

// NotSupportedError names what the kernel lacks.
type NotSupportedError struct {
	Name string // the kernel's name: IORING_OP_SEND_ZC, IORING_FEAT_EXT_ARG, …
}

func (e *NotSupportedError) Error() string { return "uring: this kernel does not support " + e.Name }

// Is makes errors.Is(err, ErrNotSupported) and errors.Is(err,
// errors.ErrUnsupported) true.
func (e *NotSupportedError) Is(target error) bool {
	return target == ErrNotSupported || target == errors.ErrUnsupported
}

const (
	callSetup    = "io_uring_setup"
	callEnter    = "io_uring_enter"
	callRegister = "io_uring_register"
	callMmap     = "mmap"
)

// Error is a failed system call of a ring. errors.Is sees its errno.
type Error struct {
	Call  string     // io_uring_setup, io_uring_enter, io_uring_register or mmap
	What  string     // the command of io_uring_register, the part mapped; may be empty
	Errno unix.Errno // what the kernel answered
	Hint  string     // where to look on this machine, found when it failed; may be empty
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("uring: ")
	b.WriteString(e.Call)
	if e.What != "" {
		b.WriteString("(" + e.What + ")")
	}
	b.WriteString(": " + e.Errno.Error())
	if why := e.Explain(); why != "" {
		b.WriteString(": " + why)
	}
	if e.Hint != "" {
		b.WriteString("; " + e.Hint)
	}
	return b.String()
}

// Unwrap returns the errno.
func (e *Error) Unwrap() error { return e.Errno }

// Is reports a missing system call or command as [ErrNotSupported].
func (e *Error) Is(target error) bool {
	return target == ErrNotSupported && e.Errno == unix.ENOSYS
}

// Explain says what the errno means to the call, or nothing if the kernel is
// not known to answer it.
func (e *Error) Explain() string { return errnoMeaning[e.Call][e.Errno] }

// errnoMeaning explains every errno that the three calls are documented to
// answer, or answer by the kernel's source (io_uring_setup(2),
// io_uring_enter(2), io_uring_register(2)).
var errnoMeaning = map[string]map[unix.Errno]string{
	callSetup: {
		unix.EFAULT: "the parameters are outside the address space",
		unix.EINVAL: "the kernel does not know a flag, or refuses the flags together or the queue sizes",
		unix.EMFILE: "the process is at its limit of open files: RLIMIT_NOFILE",
		unix.ENFILE: "the system is at its limit of open files: sysctl fs.file-max",
		unix.ENOMEM: "no memory for the queues; before Linux 5.12 also RLIMIT_MEMLOCK, which they count against",
		unix.ENOSYS: "no io_uring: a kernel without CONFIG_IO_URING, or a seccomp profile (containers) that hides it",
		unix.EPERM:  "io_uring is forbidden to this process: sysctl kernel.io_uring_disabled and kernel.io_uring_group, a seccomp profile (containers), or an LSM; IORING_SETUP_SQPOLL also needs CAP_SYS_NICE before Linux 5.13",
		unix.EACCES: "a security module (SELinux, AppArmor, Landlock) refuses io_uring",
		unix.EBADF:  "IORING_SETUP_ATTACH_WQ: WQFD is not an open descriptor",
		unix.ENXIO:  "IORING_SETUP_ATTACH_WQ: WQFD is not a ring, or one that is being closed",
		unix.EAGAIN: "no polling thread could be made: RLIMIT_NPROC, or sysctl kernel.threads-max",
	},
	callEnter: {
		unix.EAGAIN:     "no memory for the operations; reap completions and try again",
		unix.EBADF:      "the ring is closed",
		unix.EBADFD:     "the ring is not enabled yet: IORING_SETUP_R_DISABLED without Enable",
		unix.EBADR:      "the kernel ran out of memory and lost a completion for good",
		unix.EBUSY:      "completions wait for room in the completion queue; reap and try again",
		unix.EEXIST:     "another thread than the ring's owner (IORING_SETUP_SINGLE_ISSUER)",
		unix.EFAULT:     "the wait's argument is outside the address space",
		unix.EINVAL:     "the kernel does not know a flag",
		unix.EINTR:      "a signal ended the wait",
		unix.ENXIO:      "the ring is being closed",
		unix.EOPNOTSUPP: "the descriptor is not a ring",
		unix.EOWNERDEAD: "the polling thread (IORING_SETUP_SQPOLL) was killed",
		unix.ETIME:      "the wait's timeout passed",
	},
	callRegister: {
		unix.EACCES:     "the ring's restrictions forbid it",
		unix.EAGAIN:     "no memory to post the message; try again",
		unix.EBADF:      "a descriptor in the list is not open",
		unix.EBADFD:     "the ring is enabled already, or the target of a message is not enabled yet",
		unix.EBUSY:      "this kind of resource is registered already, or its slot is in use",
		unix.EEXIST:     "another thread than the ring's owner (IORING_SETUP_SINGLE_ISSUER), or a buffer group that exists",
		unix.EFAULT:     "memory outside the address space, longer than 1 GiB, or backed by a file",
		unix.EINVAL:     "the kernel does not know the command, or refuses its arguments",
		unix.EMFILE:     "more descriptors than RLIMIT_NOFILE allows",
		unix.ENOENT:     "no such buffer group",
		unix.ENOMEM:     "no memory, or more locked than RLIMIT_MEMLOCK allows",
		unix.ENXIO:      "nothing of this kind is registered, or the ring is being closed",
		unix.EOPNOTSUPP: "not a ring, or buffers backed by a file",
		unix.EOVERFLOW:  "the message found no room: the target's completion queue is full",
		unix.EPERM:      "a security module refuses it",
	},
	callMmap: {
		unix.EAGAIN: "too much memory is locked: RLIMIT_MEMLOCK",
		unix.EINVAL: "the kernel does not offer this part of the ring",
		unix.ENOMEM: "no memory, or too many mappings: sysctl vm.max_map_count",
		unix.EPERM:  "a seccomp profile or a security module refuses it",
	},
}

// setupError explains a failed io_uring_setup(2) by what this machine says.
func setupError(errno unix.Errno, flags uint32) error {
	e := &Error{Call: callSetup, Errno: errno}
	switch errno {
	case unix.EPERM, unix.ENOSYS, unix.EACCES:
		e.Hint = setupHint(os.DirFS("/proc"))
	case unix.EINVAL:
		e.Hint = "flags were " + setupFlagNames(flags)
	}
	return e
}

func mmapError(what string, err error) error {
	var errno unix.Errno
	errors.As(err, &errno)
	return &Error{Call: callMmap, What: what, Errno: errno}
}

// setupHint reads in proc which of the usual obstacles are in the way.
//
// kernel.io_uring_disabled (Linux 6.6, Documentation/admin-guide/sysctl/
// kernel.rst): 0 all may use io_uring, 1 those with CAP_SYS_ADMIN or in
// kernel.io_uring_group, 2 nobody. Seccomp in /proc/self/status: 2 is a filter.
func setupHint(proc fs.FS) string {
	var hints []string
	switch disabled := readLine(proc, "sys/kernel/io_uring_disabled"); disabled {
	case "1":
		hints = append(hints, "here kernel.io_uring_disabled is 1: only CAP_SYS_ADMIN or members of kernel.io_uring_group ("+
			readLine(proc, "sys/kernel/io_uring_group")+") may use io_uring")
	case "2":
		hints = append(hints, "here kernel.io_uring_disabled is 2: no process may use io_uring")
	case "":
		hints = append(hints, "here there is no kernel.io_uring_disabled (before Linux 6.6), so something else forbids it")
	}
	status, _ := fs.ReadFile(proc, "self/status")
	for line := range strings.Lines(string(status)) {
		if mode, ok := strings.CutPrefix(line, "Seccomp:"); ok && strings.TrimSpace(mode) == "2" {
			hints = append(hints, "here a seccomp filter is on this process: allow io_uring_setup, io_uring_enter and io_uring_register in the container's profile")
		}
	}
	return strings.Join(hints, "; ")
}

func readLine(fsys fs.FS, name string) string {
	b, err := fs.ReadFile(fsys, name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func setupFlagNames(flags uint32) string {
	var names []string
	for bit := uint32(1); bit != 0; bit <<= 1 {
		if flags&bit != 0 {
			names = append(names, setupName(bit))
		}
	}
	if names == nil {
		return "none"
	}
	return strings.Join(names, "|")
}
