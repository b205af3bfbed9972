package nfsd

import (
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// mountWatch tells when mounts come and go: poll(2) reports POLLPRI and POLLERR
// on an open /proc/self/mountinfo once after each change (mounts_poll in
// fs/proc_namespace.c).
type mountWatch struct {
	// now is asked where an answer depends on the mounts of this moment; events
	// is what the background watch waits on. Each has its own memory of what it
	// has reported. They are bare descriptors because Go's poller, which knows
	// every os.File, would take the events.
	now, events int
	// seen counts the changes noticed; known is the count that the table of
	// exports in force has taken note of.
	seen, known atomic.Uint64
	stop        int // eventfd
	done        sync.WaitGroup
}

// mountWatchPause is the least time between two looks of the background watch:
// container hosts mount and unmount without pause.
const mountWatchPause = 50 * time.Millisecond

// start calls changed after each change, from a goroutine of its own. Without
// /proc nothing is ever noticed.
func (m *mountWatch) start(changed func()) {
	var err1, err2, err3 error
	m.now, err1 = unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	m.events, err2 = unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	m.stop, err3 = unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err1 == nil && err2 == nil && err3 == nil {
		m.done.Go(func() { m.run(changed) })
	}
}

func (m *mountWatch) run(changed func()) {
	fds := []unix.PollFd{{Fd: int32(m.events), Events: unix.POLLPRI}, {Fd: int32(m.stop), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(fds, -1); err != nil && err != unix.EINTR {
			return
		}
		if fds[1].Revents != 0 {
			return
		}
		if fds[0].Revents != 0 {
			m.seen.Add(1)
			changed()
			time.Sleep(mountWatchPause)
		}
	}
}

// changed says whether there are changes that are not known yet.
func (m *mountWatch) changed() bool {
	if pollPriority(int32(m.now)) {
		m.seen.Add(1)
	}
	return m.seen.Load() != m.known.Load()
}

func (m *mountWatch) close() {
	if m.stop >= 0 {
		one := [8]byte{1}
		_, _ = unix.Write(m.stop, one[:])
		m.done.Wait()
	}
	for _, fd := range []int{m.stop, m.events, m.now} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}
