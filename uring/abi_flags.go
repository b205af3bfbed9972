package uring

// Flags of single operations, and of their completions.

// SQE.Flags.
const (
	IOSQE_FIXED_FILE       = 1 << 0 // FD is an index into the registered files
	IOSQE_IO_DRAIN         = 1 << 1 // start when all earlier operations are done
	IOSQE_IO_LINK          = 1 << 2 // the next SQE starts when this one succeeded
	IOSQE_IO_HARDLINK      = 1 << 3 // the next SQE starts when this one ended, well or not
	IOSQE_ASYNC            = 1 << 4 // straight to an io-wq worker
	IOSQE_BUFFER_SELECT    = 1 << 5 // the kernel picks a buffer of group BufIndex
	IOSQE_CQE_SKIP_SUCCESS = 1 << 6 // no CQE on success; see [Uncounted]
)

// CQE.Flags.
const (
	IORING_CQE_F_BUFFER        = 1 << 0 // the upper 16 bits are a buffer ID
	IORING_CQE_F_MORE          = 1 << 1 // the same SQE will post again
	IORING_CQE_F_SOCK_NONEMPTY = 1 << 2 // the socket has more to read
	IORING_CQE_F_NOTIF         = 1 << 3 // a zero-copy send's buffer is free
	IORING_CQE_F_BUF_MORE      = 1 << 4 // the buffer is only partly used
	IORING_CQE_F_SKIP          = 1 << 5
	IORING_CQE_F_32            = 1 << 15

	IORING_CQE_BUFFER_SHIFT = 16
)

// SQE.SpliceFDIn as file_index: take any free slot of the registered files.
const IORING_FILE_INDEX_ALLOC = ^uint32(0)

// fsync_flags.
const IORING_FSYNC_DATASYNC = 1 << 0

// timeout_flags.
const (
	IORING_TIMEOUT_ABS           = 1 << 0
	IORING_TIMEOUT_UPDATE        = 1 << 1
	IORING_TIMEOUT_BOOTTIME      = 1 << 2
	IORING_TIMEOUT_REALTIME      = 1 << 3
	IORING_LINK_TIMEOUT_UPDATE   = 1 << 4
	IORING_TIMEOUT_ETIME_SUCCESS = 1 << 5
	IORING_TIMEOUT_MULTISHOT     = 1 << 6
)

// splice_flags, beyond those of splice(2).
const SPLICE_F_FD_IN_FIXED = 1 << 31

// IORING_OP_POLL_ADD: command flags, in SQE.Len.
const (
	IORING_POLL_ADD_MULTI        = 1 << 0
	IORING_POLL_UPDATE_EVENTS    = 1 << 1
	IORING_POLL_UPDATE_USER_DATA = 1 << 2
	IORING_POLL_ADD_LEVEL        = 1 << 3
)

// cancel_flags.
const (
	IORING_ASYNC_CANCEL_ALL      = 1 << 0
	IORING_ASYNC_CANCEL_FD       = 1 << 1
	IORING_ASYNC_CANCEL_ANY      = 1 << 2
	IORING_ASYNC_CANCEL_FD_FIXED = 1 << 3
	IORING_ASYNC_CANCEL_USERDATA = 1 << 4
	IORING_ASYNC_CANCEL_OP       = 1 << 5
)

// SQE.IOPrio of sends and receives.
const (
	IORING_RECVSEND_POLL_FIRST  = 1 << 0
	IORING_RECV_MULTISHOT       = 1 << 1
	IORING_RECVSEND_FIXED_BUF   = 1 << 2
	IORING_SEND_ZC_REPORT_USAGE = 1 << 3
	IORING_RECVSEND_BUNDLE      = 1 << 4
	IORING_SEND_VECTORIZED      = 1 << 5
)

// CQE.Res of a notification asked for with IORING_SEND_ZC_REPORT_USAGE: the
// kernel copied after all.
const IORING_NOTIF_USAGE_ZC_COPIED = 1 << 31

// SQE.IOPrio of IORING_OP_ACCEPT.
const (
	IORING_ACCEPT_MULTISHOT  = 1 << 0
	IORING_ACCEPT_DONTWAIT   = 1 << 1
	IORING_ACCEPT_POLL_FIRST = 1 << 2
)

// IORING_OP_MSG_RING: commands, in SQE.Addr.
const (
	IORING_MSG_DATA    = 0
	IORING_MSG_SEND_FD = 1
)

// msg_ring_flags.
const (
	IORING_MSG_RING_CQE_SKIP   = 1 << 0
	IORING_MSG_RING_FLAGS_PASS = 1 << 1
)

// install_fd_flags.
const IORING_FIXED_FD_NO_CLOEXEC = 1 << 0

// nop_flags.
const IORING_NOP_INJECT_RESULT = 1 << 0

// io_uring_recvmsg_out heads each buffer of a multishot RECVMSG.
type io_uring_recvmsg_out struct {
	namelen    uint32
	controllen uint32
	payloadlen uint32
	flags      uint32
}
