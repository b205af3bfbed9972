// Package ioctx is the shared I/O context: what all threads of the server use to
// read files. The open files, what is known of the page cache, the pipes that
// data leaves through, and the way in which data that is not in the page cache
// gets there: in long sequential requests, whichever threads and connections the
// READs come from.
//
//	context.go   what nfsd calls: Have, Hit, Miss
//	device.go    one disk: from READs to units in flight
//	stream.go    sequential runs, found in reordered requests
//	window.go    how far to read ahead
//	unit.go      ranges that are read as one, and who waits for them
//	turn.go      whose turn it is
//	lane.go      the submitter with its ring, or threads in its place
//	disk.go      what /sys tells of a disk
//	task.go      I/O priority, and comparing kernel io_contexts
//	stats.go     counters
//	file.go      one open file description per file, for all threads and connections
//	resident.go  is a range in the page cache?
//	fetch.go     bring a range into the page cache and wait for it
//	pipe.go      pipes, pooled when proven empty
//	limits.go    bounds
package ioctx
