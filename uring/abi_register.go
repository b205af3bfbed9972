//lint:file-ignore U1000 the layout is the kernel's, whether a field is used or not

package uring

import "strconv"

// RegisterOp is enum io_uring_register_op, a command of io_uring_register(2).
type RegisterOp uint32

// enum io_uring_register_op.
const (
	IORING_REGISTER_BUFFERS          RegisterOp = 0
	IORING_UNREGISTER_BUFFERS        RegisterOp = 1
	IORING_REGISTER_FILES            RegisterOp = 2
	IORING_UNREGISTER_FILES          RegisterOp = 3
	IORING_REGISTER_EVENTFD          RegisterOp = 4
	IORING_UNREGISTER_EVENTFD        RegisterOp = 5
	IORING_REGISTER_FILES_UPDATE     RegisterOp = 6
	IORING_REGISTER_EVENTFD_ASYNC    RegisterOp = 7
	IORING_REGISTER_PROBE            RegisterOp = 8
	IORING_REGISTER_PERSONALITY      RegisterOp = 9
	IORING_UNREGISTER_PERSONALITY    RegisterOp = 10
	IORING_REGISTER_RESTRICTIONS     RegisterOp = 11
	IORING_REGISTER_ENABLE_RINGS     RegisterOp = 12
	IORING_REGISTER_FILES2           RegisterOp = 13
	IORING_REGISTER_FILES_UPDATE2    RegisterOp = 14
	IORING_REGISTER_BUFFERS2         RegisterOp = 15
	IORING_REGISTER_BUFFERS_UPDATE   RegisterOp = 16
	IORING_REGISTER_IOWQ_AFF         RegisterOp = 17
	IORING_UNREGISTER_IOWQ_AFF       RegisterOp = 18
	IORING_REGISTER_IOWQ_MAX_WORKERS RegisterOp = 19
	IORING_REGISTER_RING_FDS         RegisterOp = 20
	IORING_UNREGISTER_RING_FDS       RegisterOp = 21
	IORING_REGISTER_PBUF_RING        RegisterOp = 22
	IORING_UNREGISTER_PBUF_RING      RegisterOp = 23
	IORING_REGISTER_SYNC_CANCEL      RegisterOp = 24
	IORING_REGISTER_FILE_ALLOC_RANGE RegisterOp = 25
	IORING_REGISTER_PBUF_STATUS      RegisterOp = 26
	IORING_REGISTER_NAPI             RegisterOp = 27
	IORING_UNREGISTER_NAPI           RegisterOp = 28
	IORING_REGISTER_CLOCK            RegisterOp = 29
	IORING_REGISTER_CLONE_BUFFERS    RegisterOp = 30
	IORING_REGISTER_SEND_MSG_RING    RegisterOp = 31
	IORING_REGISTER_ZCRX_IFQ         RegisterOp = 32
	IORING_REGISTER_RESIZE_RINGS     RegisterOp = 33
	IORING_REGISTER_MEM_REGION       RegisterOp = 34
	IORING_REGISTER_QUERY            RegisterOp = 35
)

// registerNames has the commands this package issues; errors show them.
var registerNames = map[RegisterOp]string{
	IORING_REGISTER_BUFFERS2:         "IORING_REGISTER_BUFFERS2",
	IORING_REGISTER_BUFFERS:          "IORING_REGISTER_BUFFERS",
	IORING_REGISTER_BUFFERS_UPDATE:   "IORING_REGISTER_BUFFERS_UPDATE",
	IORING_REGISTER_ENABLE_RINGS:     "IORING_REGISTER_ENABLE_RINGS",
	IORING_REGISTER_EVENTFD:          "IORING_REGISTER_EVENTFD",
	IORING_REGISTER_EVENTFD_ASYNC:    "IORING_REGISTER_EVENTFD_ASYNC",
	IORING_REGISTER_FILES2:           "IORING_REGISTER_FILES2",
	IORING_REGISTER_FILES:            "IORING_REGISTER_FILES",
	IORING_REGISTER_FILES_UPDATE:     "IORING_REGISTER_FILES_UPDATE",
	IORING_REGISTER_IOWQ_AFF:         "IORING_REGISTER_IOWQ_AFF",
	IORING_REGISTER_IOWQ_MAX_WORKERS: "IORING_REGISTER_IOWQ_MAX_WORKERS",
	IORING_REGISTER_PBUF_RING:        "IORING_REGISTER_PBUF_RING",
	IORING_REGISTER_PROBE:            "IORING_REGISTER_PROBE",
	IORING_REGISTER_RING_FDS:         "IORING_REGISTER_RING_FDS",
	IORING_REGISTER_SEND_MSG_RING:    "IORING_REGISTER_SEND_MSG_RING",
	IORING_UNREGISTER_BUFFERS:        "IORING_UNREGISTER_BUFFERS",
	IORING_UNREGISTER_EVENTFD:        "IORING_UNREGISTER_EVENTFD",
	IORING_UNREGISTER_FILES:          "IORING_UNREGISTER_FILES",
	IORING_UNREGISTER_IOWQ_AFF:       "IORING_UNREGISTER_IOWQ_AFF",
	IORING_UNREGISTER_PBUF_RING:      "IORING_UNREGISTER_PBUF_RING",
	IORING_UNREGISTER_RING_FDS:       "IORING_UNREGISTER_RING_FDS",
}

// String returns the kernel's name of the command.
func (op RegisterOp) String() string {
	if name, ok := registerNames[op]; ok {
		return name
	}
	return "RegisterOp(" + strconv.FormatUint(uint64(op), 10) + ")"
}

// enum io_wq_type: the two kinds of io-wq worker.
const (
	IO_WQ_BOUND   = 0 // work that ends by itself: regular files and block devices
	IO_WQ_UNBOUND = 1 // work that may wait for ever: pipes, sockets, splices to them
)

// IORING_RSRC_REGISTER_SPARSE: make a table of empty slots.
const IORING_RSRC_REGISTER_SPARSE = 1 << 0

// IORING_REGISTER_FILES_SKIP in a list of descriptors leaves a slot as it is.
const IORING_REGISTER_FILES_SKIP = -2

// IO_URING_OP_SUPPORTED: set in io_uring_probe_op.flags.
const IO_URING_OP_SUPPORTED = 1 << 0

// io_uring_buf_reg.flags.
const (
	IOU_PBUF_RING_MMAP = 1
	IOU_PBUF_RING_INC  = 2
)

type io_uring_rsrc_register struct {
	nr    uint32
	flags uint32
	resv2 uint64
	data  uint64
	tags  uint64
}

type io_uring_rsrc_update struct {
	offset uint32
	resv   uint32
	data   uint64
}

type io_uring_rsrc_update2 struct {
	offset uint32
	resv   uint32
	data   uint64
	tags   uint64
	nr     uint32
	resv2  uint32
}

type io_uring_probe_op struct {
	op    uint8
	resv  uint8
	flags uint16
	resv2 uint32
}

// io_uring_probe with room for every opcode a byte can hold; the header has a
// flexible array at its end.
type io_uring_probe struct {
	last_op uint8
	ops_len uint8
	resv    uint16
	resv2   [3]uint32
	ops     [probeOpsMax]io_uring_probe_op
}

// io_uring_buf is one entry of a buffer ring. The resv of entry 0 is the
// ring's tail (struct io_uring_buf_ring).
type io_uring_buf struct {
	addr uint64
	len  uint32
	bid  uint16
	resv uint16
}

type io_uring_buf_reg struct {
	ring_addr    uint64
	ring_entries uint32
	bgid         uint16
	flags        uint16
	resv         [3]uint64
}
