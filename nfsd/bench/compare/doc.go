// Package compare measures several servers with the same client and the same file,
// in turn: every workload is run on every peer, in alternating order, several
// times, after a warm-up. A peer that cannot be had is reported as missing, and one
// that makes an error has no figure for that workload.
package compare
