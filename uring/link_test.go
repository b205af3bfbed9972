package uring_test

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/uring"
)

// chainOf queues a chain of NOPs with user data 1, 2, …; prep may make any of
// them something else.
func chainOf(t *testing.T, r uring.Queue, n int, link uint8, prep func(i int, s *uring.SQE)) {
	t.Helper()
	for i := 1; i <= n; i++ {
		queue(t, r, uint64(i), func(s *uring.SQE) {
			s.PrepNop()
			if i < n {
				s.Flags |= link
			}
			prep(i, s)
		})
	}
}

func failRead(s *uring.SQE) {
	flags := s.Flags
	s.PrepRead(-1, make([]byte, 1), 0)
	s.Flags = flags
}

func TestLink(t *testing.T) {
	rings := map[string]uring.Config{
		"recommended":        {},
		"without SUBMIT_ALL": {Flags: uring.IORING_SETUP_CLAMP},
	}
	cases := []struct {
		name string
		link uint8
		prep func(i int, s *uring.SQE)
		want [4]int32
	}{
		{"in order", uring.IOSQE_IO_LINK, func(int, *uring.SQE) {}, [4]int32{}},
		{"a failure cancels the rest", uring.IOSQE_IO_LINK, func(i int, s *uring.SQE) {
			if i == 2 {
				failRead(s)
			}
		}, [4]int32{0, errno(unix.EBADF), errno(unix.ECANCELED), errno(unix.ECANCELED)}},
		{"a hard link goes on", uring.IOSQE_IO_HARDLINK, func(i int, s *uring.SQE) {
			if i == 2 {
				failRead(s)
			}
		}, [4]int32{0, errno(unix.EBADF), 0, 0}},
		{"an unknown operation stops all", uring.IOSQE_IO_LINK, func(i int, s *uring.SQE) {
			if i == 3 {
				s.Opcode = 255
			}
		}, [4]int32{errno(unix.ECANCELED), errno(unix.ECANCELED), errno(unix.EINVAL), errno(unix.ECANCELED)}},
	}
	for ringName, cfg := range rings {
		for _, c := range cases {
			t.Run(c.name+", "+ringName, func(t *testing.T) {
				r := newRing(t, cfg)
				chainOf(t, r, 4, c.link, c.prep)
				got := reapN(t, r, 4)
				for i, want := range c.want {
					wantRes(t, "link", got[uint64(i+1)], want)
				}
				wantCounts(t, r, uring.Counts{})
			})
		}
	}
}

// TestShortReadBreaksLink: the file ends before the buffer.
func TestShortReadBreaksLink(t *testing.T) {
	r := newRing(t, uring.Config{})
	f := tempFile(t, pattern(10))
	chainOf(t, r, 2, uring.IOSQE_IO_LINK, func(i int, s *uring.SQE) {
		if i == 1 {
			s.PrepRead(fdOf(f), make([]byte, 11), 0)
			s.Flags |= uring.IOSQE_IO_LINK
		}
	})
	got := reapN(t, r, 2)
	wantRes(t, "short READ", got[1], 10)
	wantRes(t, "what links to it", got[2], errno(unix.ECANCELED))
}

func TestLinkTimeout(t *testing.T) {
	r := newRing(t, uring.Config{})
	rd, w := pipe(t, 0)
	for _, inTime := range []bool{false, true} {
		ts := uring.Timespec(10 * time.Millisecond)
		if inTime {
			ts = uring.Timespec(time.Hour)
		}
		queue(t, r, 1, func(s *uring.SQE) {
			s.PrepRead(rd, make([]byte, 1), uring.CurrentPosition)
			s.Flags |= uring.IOSQE_IO_LINK
		})
		queue(t, r, 2, func(s *uring.SQE) { s.PrepLinkTimeout(&ts, 0) })
		if inTime {
			unix.Write(w, []byte("x"))
		}
		got := reapN(t, r, 2)
		if inTime {
			wantRes(t, "READ in time", got[1], 1)
			wantRes(t, "LINK_TIMEOUT", got[2], errno(unix.ECANCELED))
		} else {
			wantRes(t, "READ too slow", got[1], errno(unix.ECANCELED))
			wantRes(t, "LINK_TIMEOUT", got[2], errno(unix.ETIME))
		}
	}
}

// TestSkipSuccess pins what the ledger relies on: a chain of silent operations
// posts nothing, or the one failure, and nothing of what that cancels.
func TestSkipSuccess(t *testing.T) {
	r := newRing(t, uring.Config{})
	silent := func(i uint64, fail bool, flags uint8) {
		queue(t, r, uring.Uncounted|i, func(s *uring.SQE) {
			s.PrepNop()
			s.Flags = flags
			if fail {
				failRead(s)
			}
		})
	}
	const skipLink = uring.IOSQE_CQE_SKIP_SUCCESS | uring.IOSQE_IO_LINK
	silent(1, false, skipLink)
	silent(2, false, skipLink)
	silent(3, false, 0)
	wantRes(t, "the last of a chain", reapN(t, r, 1)[uring.Uncounted|3], 0)
	silent(1, false, skipLink)
	silent(2, true, skipLink)
	silent(3, false, 0)
	wantRes(t, "the one that fails", reapN(t, r, 1)[uring.Uncounted|2], errno(unix.EBADF))
	if r.SubmitAndWait(1, 5*time.Millisecond); r.Ready() != 0 {
		t.Errorf("%d completions more", r.Ready())
	}
	wantCounts(t, r, uring.Counts{})
}
