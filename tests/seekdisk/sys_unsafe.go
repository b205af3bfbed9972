package seekdisk

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// fibmap returns where a block of a file is on its device, in blocks; 0 for a
// hole (ioctl FIBMAP, include/uapi/linux/fs.h).
func fibmap(fd uintptr, block int32) (int32, error) {
	const FIBMAP = 1
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, FIBMAP, uintptr(unsafe.Pointer(&block)))
	if errno != 0 {
		return 0, errno
	}
	return block, nil
}
