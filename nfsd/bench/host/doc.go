// Package host looks at the machine that a benchmark runs on: the server's process
// if it is here, what CPU its threads use, what the block device below a file does,
// and the page cache. It reads /proc and /sys; what it cannot read it does not know.
package host
