// Package bench measures NFSv3 servers, this one or any other.
//
//	client   finds, mounts and looks up; encodes calls
//	load     makes the calls, many at once, and times them
//	host     the server's CPU, the disk, the page cache, where they are here
//	bench    one measurement: Read, Meta, and its Result
//	compare  peers started and measured in turn
//	report   results as text, Markdown, pictures, JSON lines, benchstat's format
package bench
