package uring

import "golang.org/x/sys/unix"

// Err returns the error an operation ended with, or nil. It does not allocate.
func (c CQE) Err() error {
	if c.Res < 0 {
		return unix.Errno(-c.Res)
	}
	return nil
}

// More reports whether the operation will post further completions.
func (c CQE) More() bool { return c.Flags&IORING_CQE_F_MORE != 0 }

// Notif reports whether this is a zero-copy send's second completion, which
// says that its buffer is free.
func (c CQE) Notif() bool { return c.Flags&IORING_CQE_F_NOTIF != 0 }

// Buffer returns the ID of the provided buffer the kernel picked, if it did.
func (c CQE) Buffer() (bid uint16, ok bool) {
	return uint16(c.Flags >> IORING_CQE_BUFFER_SHIFT), c.Flags&IORING_CQE_F_BUFFER != 0
}
