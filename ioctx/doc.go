// Package ioctx is what all threads of the server share to read files: the
// open files, what is known of the page cache, the pipes that data leaves
// through, and the way in which data that is not in the page cache gets there.
//
//	file.go      one open file description per file, for all threads and connections
//	resident.go  is a range in the page cache?
//	fetch.go     bring a range into the page cache
//	pipe.go      pipes, pooled when proven empty
//	limits.go    bounds
package ioctx
