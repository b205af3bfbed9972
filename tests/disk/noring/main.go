// Command noring runs a program that gets no io_uring: io_uring_setup(2) fails
// with EPERM in it and its children, as it does under container runtimes and with
// the sysctl kernel.io_uring_disabled=2.
//
// Usage: noring PROGRAM [ARGUMENT…]
package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: noring PROGRAM [ARGUMENT...]")
		os.Exit(2)
	}
	fmt.Fprintln(os.Stderr, "noring:", run(os.Args[1:]))
	os.Exit(1)
}

// run returns only if it fails.
func run(argv []string) error {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	runtime.LockOSThread() // filters belong to threads; that of exec's survives
	if err := deny(unix.SYS_IO_URING_SETUP, unix.EPERM); err != nil {
		return fmt.Errorf("seccomp: %w", err)
	}
	return unix.Exec(path, argv, os.Environ())
}
