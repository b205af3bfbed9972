// Package export reads exports(5), says which client may use which directory
// and how, and follows the file as it changes.
//
// The reference is Linux nfs-utils 2.6.2: a file means here what
// exportfs(8) makes of it, or it is refused with a message that says why.
// Tests hold this package against the real tool.
//
// A tour, in the order in which a file goes through:
//
//	load.go     opens /etc/exports and exports.d, with bounds
//	lex.go      bytes to tokens, each byte with its line and column
//	parse.go    tokens to path, client and options
//	options.go  the table of options and what each one sets
//	client.go   the kinds of client; wildmat.go their patterns
//	build.go    canonical paths, resolved names, duplicates; then the Table
//	check.go    what a file means but hardly wants: warnings that teach
//	table.go    the immutable result
//	match.go    which entry holds for an address; why.go explains it
//	cache.go    reverse names and netgroups, remembered, off the hot path
//	holder.go   the current table, swapped whole; watch.go follows the file
//
// # Where we differ from nfs-utils on purpose
//
// Each is an error with file, line and column, and only the entry is dropped
// unless said otherwise:
//
//   - 10.0.0.0/ (an empty prefix length, taken as /0), 10.0.0.0/+8.
//   - 4 or 127.1 or 010.1.1.1 as a host (inet_aton(3) forms).
//   - an anonuid or anongid beyond 32 bits (wraps), an fsid beyond 32 bits
//     (truncated; a UUID of 32 decimal digits is read as such a number).
//   - an unterminated quote (swallows the file); an empty path, a path over
//     1,024 bytes or a line of only a carriage return (nfs-utils stops reading
//     there and says nothing); an empty or control-character client (exports
//     to the world); a NUL in quotes. These abandon the rest of the file.
//   - white space or a quote in a wildcard or netgroup, which nfs-utils writes
//     to its etab in a form that it cannot read back.
//
// A subnet of prefix length 0 matches every address of its family as
// exports(5) says; nfs-utils 2.6.2 on x86 shifts a word by 32 there and
// matches the base address only. A wildcard is compared with reverse names
// that forward resolution confirms; nfs-utils falls back to unconfirmed ones.
// A netgroup's member that is an address needs no reverse name, and a member
// with an empty host part matches nobody (exports(5); glibc matches anybody).
package export
