package export

// Flags are the kernel's export flags, spelled as in
// include/uapi/linux/nfsd/export.h.
type Flags uint32

const (
	NFSEXP_READONLY        Flags = 0x0001
	NFSEXP_INSECURE_PORT   Flags = 0x0002
	NFSEXP_ROOTSQUASH      Flags = 0x0004
	NFSEXP_ALLSQUASH       Flags = 0x0008
	NFSEXP_ASYNC           Flags = 0x0010
	NFSEXP_GATHERED_WRITES Flags = 0x0020
	NFSEXP_NOREADDIRPLUS   Flags = 0x0040
	NFSEXP_SECURITY_LABEL  Flags = 0x0080
	NFSEXP_NOHIDE          Flags = 0x0200
	NFSEXP_NOSUBTREECHECK  Flags = 0x0400
	NFSEXP_NOAUTHNLM       Flags = 0x0800
	NFSEXP_FSID            Flags = 0x2000
	NFSEXP_CROSSMOUNT      Flags = 0x4000
	NFSEXP_NOACL           Flags = 0x8000
	NFSEXP_PNFS            Flags = 0x20000
)

const (
	// defaultFlags is nfs-utils' EXPORT_DEFAULT_FLAGS.
	defaultFlags = NFSEXP_READONLY | NFSEXP_ROOTSQUASH | NFSEXP_GATHERED_WRITES | NFSEXP_NOSUBTREECHECK

	// secinfoFlags may differ between the flavours of one export. It is
	// nfs-utils' NFSEXP_OLD_SECINFO_FLAGS, what exportfs uses where no
	// kernel server is there to ask.
	secinfoFlags = NFSEXP_READONLY | NFSEXP_ROOTSQUASH | NFSEXP_ALLSQUASH
)

// RPC authentication flavours (RFC 5531 §8.2, RFC 2623 §2.2).
const (
	AUTH_NONE          uint32 = 0
	AUTH_SYS           uint32 = 1
	RPC_AUTH_GSS_KRB5  uint32 = 390003
	RPC_AUTH_GSS_KRB5I uint32 = 390004
	RPC_AUTH_GSS_KRB5P uint32 = 390005
)
