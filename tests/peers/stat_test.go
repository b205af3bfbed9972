package peers

import (
	"testing"

	"golang.org/x/sys/unix"
)

func lstat(t *testing.T, path string) unix.Stat_t {
	t.Helper()
	var st unix.Stat_t
	must(t, unix.Lstat(path, &st))
	return st
}
