package uring

// The kernel's io_uring ABI, from include/uapi/linux/io_uring.h. Constants
// keep the header's spelling, and so do the structs that never leave this
// package, so that a search for a kernel name finds it here. Only the two
// entries that callers handle have Go names: [SQE] and [CQE].
//
// abi_test.go checks every size, offset and value against the header.

// struct io_uring_sqe and struct io_uring_cqe under their kernel names.
type (
	io_uring_sqe = SQE
	io_uring_cqe = CQE
)

// SQE is struct io_uring_sqe, one submission queue entry. Fill it with one of
// the Prep methods, then add flags, an I/O priority or user data by setting
// fields. Where the header has a union, the comment names its members.
type SQE struct {
	Opcode      Opcode // opcode
	Flags       uint8  // flags: IOSQE_*
	IOPrio      uint16 // ioprio: an I/O priority, or IORING_RECVSEND_*, IORING_ACCEPT_*
	FD          int32  // fd: a descriptor, or a table index with IOSQE_FIXED_FILE
	Off         uint64 // off, addr2
	Addr        uint64 // addr, splice_off_in
	Len         uint32 // len
	OpFlags     uint32 // rw_flags, fsync_flags, poll32_events, msg_flags, … one per operation
	UserData    uint64 // user_data: handed back in the CQE; see [Uncounted]
	BufIndex    uint16 // buf_index, buf_group
	Personality uint16 // personality
	SpliceFDIn  int32  // splice_fd_in, file_index, addr_len
	Addr3       uint64 // addr3, attr_ptr, optval
	Pad2        uint64 // __pad2, attr_type_mask
}

// CQE is struct io_uring_cqe, one completion queue entry.
type CQE struct {
	UserData uint64 // user_data: as given in the SQE
	Res      int32  // res: a count or descriptor, or a negated errno
	Flags    uint32 // flags: IORING_CQE_F_*
}

// struct io_sqring_offsets: where the submission ring's words are.
type io_sqring_offsets struct {
	head         uint32
	tail         uint32
	ring_mask    uint32
	ring_entries uint32
	flags        uint32
	dropped      uint32
	array        uint32
	resv1        uint32
	user_addr    uint64
}

// struct io_cqring_offsets: where the completion ring's words are.
type io_cqring_offsets struct {
	head         uint32
	tail         uint32
	ring_mask    uint32
	ring_entries uint32
	overflow     uint32
	cqes         uint32
	flags        uint32
	resv1        uint32
	user_addr    uint64
}

// struct io_uring_params: passed to io_uring_setup(2) and filled in by it.
type io_uring_params struct {
	sq_entries     uint32
	cq_entries     uint32
	flags          uint32
	sq_thread_cpu  uint32
	sq_thread_idle uint32
	features       uint32
	wq_fd          uint32
	resv           [3]uint32
	sq_off         io_sqring_offsets
	cq_off         io_cqring_offsets
}

// struct io_uring_getevents_arg: io_uring_enter(2) with IORING_ENTER_EXT_ARG.
type io_uring_getevents_arg struct {
	sigmask       uint64
	sigmask_sz    uint32
	min_wait_usec uint32
	ts            uint64
}

// io_uring_setup(2) flags.
const (
	IORING_SETUP_IOPOLL             = 1 << 0
	IORING_SETUP_SQPOLL             = 1 << 1
	IORING_SETUP_SQ_AFF             = 1 << 2
	IORING_SETUP_CQSIZE             = 1 << 3
	IORING_SETUP_CLAMP              = 1 << 4
	IORING_SETUP_ATTACH_WQ          = 1 << 5
	IORING_SETUP_R_DISABLED         = 1 << 6
	IORING_SETUP_SUBMIT_ALL         = 1 << 7
	IORING_SETUP_COOP_TASKRUN       = 1 << 8
	IORING_SETUP_TASKRUN_FLAG       = 1 << 9
	IORING_SETUP_SQE128             = 1 << 10
	IORING_SETUP_CQE32              = 1 << 11
	IORING_SETUP_SINGLE_ISSUER      = 1 << 12
	IORING_SETUP_DEFER_TASKRUN      = 1 << 13
	IORING_SETUP_NO_MMAP            = 1 << 14
	IORING_SETUP_REGISTERED_FD_ONLY = 1 << 15
	IORING_SETUP_NO_SQARRAY         = 1 << 16
	IORING_SETUP_HYBRID_IOPOLL      = 1 << 17
	IORING_SETUP_CQE_MIXED          = 1 << 18
)

// io_uring_params.features.
const (
	IORING_FEAT_SINGLE_MMAP     = 1 << 0
	IORING_FEAT_NODROP          = 1 << 1
	IORING_FEAT_SUBMIT_STABLE   = 1 << 2
	IORING_FEAT_RW_CUR_POS      = 1 << 3
	IORING_FEAT_CUR_PERSONALITY = 1 << 4
	IORING_FEAT_FAST_POLL       = 1 << 5
	IORING_FEAT_POLL_32BITS     = 1 << 6
	IORING_FEAT_SQPOLL_NONFIXED = 1 << 7
	IORING_FEAT_EXT_ARG         = 1 << 8
	IORING_FEAT_NATIVE_WORKERS  = 1 << 9
	IORING_FEAT_RSRC_TAGS       = 1 << 10
	IORING_FEAT_CQE_SKIP        = 1 << 11
	IORING_FEAT_LINKED_FILE     = 1 << 12
	IORING_FEAT_REG_REG_RING    = 1 << 13
	IORING_FEAT_RECVSEND_BUNDLE = 1 << 14
	IORING_FEAT_MIN_TIMEOUT     = 1 << 15
	IORING_FEAT_RW_ATTR         = 1 << 16
	IORING_FEAT_NO_IOWAIT       = 1 << 17
)

// mmap(2) offsets of a ring descriptor.
const (
	IORING_OFF_SQ_RING    = 0
	IORING_OFF_CQ_RING    = 0x8000000
	IORING_OFF_SQES       = 0x10000000
	IORING_OFF_PBUF_RING  = 0x80000000
	IORING_OFF_PBUF_SHIFT = 16
	IORING_OFF_MMAP_MASK  = 0xf8000000
)

// Flags the kernel sets in the submission ring.
const (
	IORING_SQ_NEED_WAKEUP = 1 << 0
	IORING_SQ_CQ_OVERFLOW = 1 << 1
	IORING_SQ_TASKRUN     = 1 << 2
)

// Flags user space sets in the completion ring.
const (
	IORING_CQ_EVENTFD_DISABLED = 1 << 0
)

// io_uring_enter(2) flags.
const (
	IORING_ENTER_GETEVENTS       = 1 << 0
	IORING_ENTER_SQ_WAKEUP       = 1 << 1
	IORING_ENTER_SQ_WAIT         = 1 << 2
	IORING_ENTER_EXT_ARG         = 1 << 3
	IORING_ENTER_REGISTERED_RING = 1 << 4
	IORING_ENTER_ABS_TIMER       = 1 << 5
	IORING_ENTER_EXT_ARG_REG     = 1 << 6
	IORING_ENTER_NO_IOWAIT       = 1 << 7
)
