package main

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// landlockABI asks for the version of the interface (landlock_create_ruleset(2)).
func landlockABI() (int, error) {
	v, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if e != 0 {
		return 0, e
	}
	return int(v), nil
}

// landlockRuleset makes a ruleset that denies these rights.
func landlockRuleset(rights uint64) (int, error) {
	// Only the first member: all that the first version of the interface knows.
	fd, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&rights)), unsafe.Sizeof(rights), 0)
	if e != 0 {
		return -1, e
	}
	return int(fd), nil
}

// landlockAllow gives rights back below an open directory, or for an open file
// (landlock_add_rule(2)).
func landlockAllow(ruleset, fd int, rights uint64) error {
	rule := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	_, _, e := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if e != 0 {
		return e
	}
	return nil
}

// landlockRestrict puts a ruleset in force for the calling thread, and for what it
// executes (landlock_restrict_self(2)).
func landlockRestrict(ruleset int) error {
	if _, _, e := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(ruleset), 0, 0); e != 0 {
		return e
	}
	return nil
}
