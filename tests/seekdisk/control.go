package seekdisk

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// controlNode is the file through which other processes reach the drive. It
// reads as the counters in JSON; what can be written to it is a line of:
//
//	stall [DURATION]   requests wait for that long, or until released
//	release            they wait no more
//	fail OFFSET BYTES  reads that touch the range of the disk fail with EIO
//	heal               nothing fails any more
//	reset              the counters go to zero
type controlNode struct {
	fs.Inode
	drive *drive
}

func (n *controlNode) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode, out.Nlink = 0o600, 1
	return 0
}

func (n *controlNode) Setattr(ctx context.Context, h fs.FileHandle, _ *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	return n.Getattr(ctx, h, out)
}

// Open takes the counters, so that a reading in parts fits together.
func (n *controlNode) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	b, err := json.Marshal(n.drive.snapshot())
	if err != nil {
		return nil, 0, syscall.EIO
	}
	return append(b, '\n'), fuse.FOPEN_DIRECT_IO, 0 // the size that Getattr gives does not matter then
}

func (n *controlNode) Read(_ context.Context, h fs.FileHandle, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	text := h.([]byte)
	return fuse.ReadResultData(dest[:copy(dest, text[min(off, int64(len(text))):])]), 0
}

func (n *controlNode) Write(_ context.Context, _ fs.FileHandle, data []byte, _ int64) (uint32, syscall.Errno) {
	for line := range strings.Lines(string(data)) {
		if err := n.drive.command(strings.Fields(line)); err != nil {
			return 0, syscall.EINVAL
		}
	}
	return uint32(len(data)), 0
}

// command executes a line of the control file.
func (d *drive) command(words []string) error {
	switch {
	case len(words) == 0:
	case words[0] == "stall" && len(words) == 1:
		d.stall(0)
	case words[0] == "stall" && len(words) == 2:
		t, err := time.ParseDuration(words[1])
		if err != nil || t <= 0 {
			return fmt.Errorf("stall %q: not a positive duration", words[1])
		}
		d.stall(t)
	case words[0] == "fail" && len(words) == 3:
		off, err := strconv.ParseInt(words[1], 0, 64)
		n, err2 := strconv.ParseInt(words[2], 0, 64)
		if err != nil || err2 != nil || n <= 0 {
			return fmt.Errorf("fail %s %s: not an offset and a number of bytes", words[1], words[2])
		}
		d.fail(extent{off, n})
	case words[0] == "release" && len(words) == 1:
		d.unstall()
	case words[0] == "heal" && len(words) == 1:
		d.heal()
	case words[0] == "reset" && len(words) == 1:
		d.reset()
	default:
		return fmt.Errorf("unknown command %q", strings.Join(words, " "))
	}
	return nil
}
