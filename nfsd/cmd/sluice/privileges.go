package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Before it reads anything of a client, the server gives up what it does not need,
// for good. A thread can give up privileges only for itself, and by now the Go
// runtime has several; what a program is executed with holds for all of its
// threads. So one thread gives up what it may, and executes the program again in
// its place: the process stays the same, with its number and descriptors.

// keptCapabilities are what serving takes (capabilities(7)); docs/security.md says
// what each is for, and what does not work without it.
var keptCapabilities = []int{
	unix.CAP_DAC_READ_SEARCH,  // open_by_handle_at(2), reading what the caller may
	unix.CAP_SETUID,           // the kernel checks permissions as the caller
	unix.CAP_SETGID,           // his groups too
	unix.CAP_SYS_ADMIN,        // a mount of its own for each export (open_tree(2)); pipes beyond fs.pipe-user-pages-soft
	unix.CAP_FOWNER,           // cachestat(2) of files of others, since Linux 6.15
	unix.CAP_NET_BIND_SERVICE, // ports below 1024, after a hand-over too
}

// fencedEnv says that the program has been executed again; it holds what came of
// it, for the log.
const fencedEnv = "SLUICE_FENCED"

// enterFence returns in the process that runs with less, or with the reason why
// there is none.
func enterFence(stateDir string) (report string, err error) {
	if report, ok := os.LookupEnv(fencedEnv); ok {
		_ = os.Unsetenv(fencedEnv)
		return report, nil
	}
	if os.MkdirAll(stateDir, 0o700) != nil {
		return "", nil // the server will not get far, and says why
	}
	// Not unlocked: the thread is good for nothing else if this fails half-way.
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return "", os.NewSyscallError("prctl(PR_SET_NO_NEW_PRIVS)", err)
	}
	said := []string{"no new privileges"}
	if os.Geteuid() == 0 {
		if err := dropCapabilities(); err != nil {
			return "", err
		}
		said = append(said, fmt.Sprintf("%d capabilities", len(keptCapabilities)))
	}
	switch err := denyWrites(stateDir); {
	case err == nil:
		said = append(said, "writes to the state directory only")
	case !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EOPNOTSUPP):
		return "", fmt.Errorf("landlock: %w", err)
	}
	exe, err := os.Executable()
	if err != nil {
		return "", err
	}
	env := append(os.Environ(), fencedEnv+"="+strings.Join(said, ", "))
	return "", os.NewSyscallError("execve", syscall.Exec(exe, os.Args, env))
}

// dropCapabilities limits what the thread's next program can have. (Root has at
// exec what is in the bounding set.)
func dropCapabilities() error {
	last, err := os.ReadFile("/proc/sys/kernel/cap_last_cap")
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(last)))
	if err != nil {
		return err
	}
	for c := range n + 1 {
		if slices.Contains(keptCapabilities, c) {
			continue
		}
		had, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(c), 0, 0, 0)
		if err == nil && had == 1 {
			err = unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0)
		}
		if err == unix.EPERM {
			return nil // no CAP_SETPCAP: whoever started us has chosen
		}
		if err != nil {
			return os.NewSyscallError("prctl(PR_CAPBSET_DROP)", err)
		}
	}
	return unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
}

// writeRights are all ways to change a file system that Landlock knows (landlock(7)),
// by the version of its interface that brought them.
var writeRights = []struct {
	abi    int
	rights uint64
}{
	{1, unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM},
	{2, unix.LANDLOCK_ACCESS_FS_REFER},
	{3, unix.LANDLOCK_ACCESS_FS_TRUNCATE},
}

// denyWrites has the kernel refuse every change of a file but below the state
// directory. Reading is left alone, so that opening a file to read costs nothing.
func denyWrites(stateDir string) error {
	abi, err := landlockABI()
	if err != nil {
		return err
	}
	var rights uint64
	for _, r := range writeRights {
		if abi >= r.abi {
			rights |= r.rights
		}
	}
	ruleset, err := landlockRuleset(rights)
	if err != nil {
		return err
	}
	defer unix.Close(ruleset)
	if err := allowBelow(ruleset, stateDir, rights); err != nil {
		return err
	}
	if err := allowBelow(ruleset, os.DevNull, unix.LANDLOCK_ACCESS_FS_WRITE_FILE); err != nil {
		return err
	}
	return landlockRestrict(ruleset)
}

func allowBelow(ruleset int, path string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	return landlockAllow(ruleset, fd, rights)
}
