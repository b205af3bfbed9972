package export

import "time"

// Bounds on what is read and kept. Nothing is allocated in proportion to a
// number that was not compared with one of these first.
const (
	// maxFileBytes bounds one exports file. 10,000 lines of 1 KiB fit.
	maxFileBytes = 16 << 20

	// maxTotalBytes bounds all files of one table together.
	maxTotalBytes = 64 << 20

	// maxDirFiles bounds the *.exports files in exports.d.
	maxDirFiles = 4096

	// maxEntries bounds the table: path and client pairs.
	maxEntries = 1 << 18

	// maxHostToken is nfs-utils' buffer for a client with its options: a
	// token of this many bytes no longer fits (getexportent, char exp[512]).
	maxHostToken = 512

	// maxPathToken is nfs-utils' e_path, NFS_MAXPATHLEN+1.
	maxPathToken = 1025

	// maxDiagnostics bounds the messages about one table.
	maxDiagnostics = 1000

	// maxExcerptBytes bounds the piece of a source line shown with a message.
	maxExcerptBytes = 200

	// maxSymlinks is the kernel's MAXSYMLINKS (path_resolution(7)).
	maxSymlinks = 40

	// maxHostAddrs bounds the addresses kept for a host name.
	maxHostAddrs = 64

	// maxHostNames bounds the reverse names tried for an address.
	maxHostNames = 16

	// maxNetgroupBytes bounds the output of getent(1) for one netgroup.
	maxNetgroupBytes = 4 << 20

	// resolveWorkers bounds concurrent look-ups while a table is loaded.
	resolveWorkers = 16

	// resolveTimeout bounds one look-up, at load and for a client.
	resolveTimeout = 5 * time.Second

	// settle is how long a changed file must be quiet before it is read:
	// editors write, rename and touch in quick succession.
	settle = 100 * time.Millisecond

	// settleMax is the longest that a stream of changes puts a reload off.
	settleMax = 2 * time.Second

	// retryUnresolved is how often a table with unresolved hosts is read
	// again: a server may start before its name service.
	retryUnresolved = 30 * time.Second
)
