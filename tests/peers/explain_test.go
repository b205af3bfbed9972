package peers

import (
	"regexp"
	"strings"
)

// difference explains answers in which the two servers differ. Its first
// three fields are regular expressions for whole texts: names of cases, our
// answers and NFS-Ganesha's, without the attributes that it left out.
type difference struct{ cases, ours, theirs, why string }

// explained has every difference. "K" is what Linux's own server does. Where
// nothing else is said, sections are RFC 1813's.
var explained = []difference{
	{".*", "same", "same", "2.5: attributes in replies are optional; we give them wherever we have them, errors included, which saves clients a GETATTR"},

	// Attributes, file system
	{"(GETATTR|FSSTAT|PATHCONF|LOOKUP|READ) .* ?with AUTH_NONE|.* / with AUTH_NONE|.* in / with AUTH_NONE|GETATTR with AUTH_NONE", "ACCES.*", "AUTH_TOOWEAK",
		"the export wants sec=sys; we say so in NFS's status, as K does, they in RPC's"},
	{"FSINFO / with AUTH_NONE", "ACCES.*", "OK .*", "the same; they let FSINFO pass for clients that look for a flavour (RFC 2623 2.3.2), who learn ours from MNT"},
	{"FSINFO .*", "OK .*rtmult=4096 wtmax=65536 .*time_delta=0.000000001 .*", "OK .*rtmult=512 wtmax=67108864 .*time_delta=0.000000100 .*",
		"3.3.19: preferences are the server's own; nothing can be written here, and times are kept to the nanosecond"},
	{"PATHCONF .*", "OK .*linkmax=32000 name_max=255 .*", "OK .*linkmax=8 name_max=1024 .*", "3.3.20: Linux's file systems have names of 255 bytes at most; linkmax as K"},

	// Names
	{`LOOKUP "(|/|a/b)" in /|LOOKUP "f5.x00x" in /`, "ACCES.*", "(NOENT|OK handle->(dir/hard|fileid [0-9 ]+)).*",
		"3.2: names that no file can have get ACCES; they cut the name at the NUL, and open what a path names, even outside the export"},

	// ACCESS
	{"ACCESS 0xffffffff .*", "OK .*bits=0x([012]?[0-9a-f])", "OK .*bits=0x1[46][0-9a-f]", "3.3.4 has six bits; they also answer RFC 8276's for extended attributes, which version 3 has not"},

	// READ
	{`READ "f[05]" at 0x[056], 0`, "OK .*count=0 eof=true", "OK .*count=0 eof=false", "3.3.6: eof at the end of the file whatever the count; K"},
	{`READ "f5" at 0x(7f|8|f).*`, "OK .*count=0 eof=true", "(FBIG|INVAL).*", "3.3.6: an offset past the end is no error; K clamps to what a file can have"},

	// READDIR, READDIRPLUS
	{"READDIR(PLUS)? / from cookie 0xffffffffffffffff, .*", "BAD_COOKIE.*", "INVAL.*", "3.3.16 lists BAD_COOKIE for cookies that no entry has had, not INVAL"},
	{"READDIR(PLUS)? / with count (0|1|64|100)", "TOOSMALL.*", "OK .*", "3.3.16: not even one entry fits into count bytes; they answer without entries or with too many bytes"},
	{"READDIRPLUS / with dircount 0", "OK .*some=true eof=true", "OK .*MALFORMED.*", "3.3.17: dircount is a hint, and maxcount has room; they answer with a body that cannot be parsed"},
	{"READDIRPLUS all of .*", "OK .* attrs=[0-9]+ handles=[0-9]+ eof=true", "OK .* attrs=[0-9]+ handles=[0-9]+ eof=true",
		"3.3.17: attributes and handles of entries are optional; we give none for .., which may be out of the export"},

	// Handles
	{".* of a handle empty", "GARBAGE_ARGS", "BADHANDLE.*", "2.5: a handle of length 0 exists only in WebNFS (RFC 2054); K cannot parse it either"},
	{".* of a handle with the last bit flipped", "BADHANDLE.*", "(OK|ROFS|NOTDIR|INVAL).*", "our handles are sealed, so that clients cannot make up handles of other files; they ignore that bit"},

	// MOUNT
	{"MNT (with double slashes|below, through ..)", "OK handle->(/|dir) flavour=1", "ACCES", "we resolve the path before looking at the exports, as K's mountd does; they compare texts"},
	{"MNT a (file|link to a file)", "OK handle->dir/hard flavour=1", "ACCES", "5.2.1: a file may be mounted; diskless clients mount their swap file; K"},
	{"MNT (a FIFO|below a file)", "NOTDIR", "ACCES", "5.2.1: within an export the caller may mount, the true error is said"},
	{"MNT missing", "NOENT", "ACCES", "the same"},
	{"MNT with a name of 256 bytes", "NAMETOOLONG", "ACCES", "the same"},
	{"MNT with a NUL", "ACCES", "OK .*", "no path has a NUL; they ignore all after it"},
	{"MOUNT version 1 procedure 2", "done, lists the mount: true", "done, lists the mount: false", "5.2.2: DUMP lists who mounted; they keep no list"},
	{"MOUNT version [13] procedure 5", `done EXPORT to \*`, "done EXPORT", "5.2.5: the groups allowed to mount are named; * is everyone, as showmount -e prints for K"},
	{"MOUNT version 1 procedure 6", `done EXPORT to \*`, "PROC_UNAVAIL", "version 1 as it is in use (mount.x) has EXPORTALL; K"},

	// RPC (sections of RFC 5531)
	{"NFSACL", "PROG_UNAVAIL", "done, 0 bytes", "9: NFSACL is not served, and clients must hear that to do without"},
	{"(NULL|GETATTR) with (AUTH_NONE with a body|a credential of 400 bytes)", "AUTH_BADCRED", "done, 0 bytes|AUTH_TOOWEAK", "10.1: AUTH_NONE has no body; K"},
	{"(NULL|GETATTR) with (AUTH_SHORT|AUTH_DH|flavour 99|RPCSEC_GSS)", "AUTH_BADCRED", "AUTH_REJECTEDCRED|auth_stat 7", "9: a flavour that is not served; K has the same word for it"},
	{"(NULL|GETATTR) with a credential of 404 bytes", "AUTH_BADCRED", "connection closed", "8.2: 400 bytes at most; never silence"},
	{"RPC version [13]", `RPC_MISMATCH 2\.\.2`, "connection closed", "9: the mismatch is answered"},
	{"a verifier of flavour 1|an AUTH_NONE verifier with a body", "AUTH_BADVERF", "OK .*", "A: the verifier of AUTH_SYS is AUTH_NONE, which is empty; K"},
	{"a verifier of 404 bytes", "AUTH_BADVERF", "connection closed", "8.2: 400 bytes at most; never silence"},
}

// explain returns the row for a difference, or -1.
func explain(name, ours, theirs string) int {
	ours, theirs = withoutOptional(ours, theirs)
	if ours == theirs {
		return 0
	}
	for i, e := range explained {
		if whole(e.cases, name) && whole(e.ours, ours) && whole(e.theirs, theirs) {
			return i
		}
	}
	return -1
}

func whole(pattern, text string) bool {
	return regexp.MustCompile(`^(?s:` + pattern + `)$`).MatchString(text)
}

// withoutOptional drops the attributes that only we gave from both texts.
func withoutOptional(ours, theirs string) (string, string) {
	for _, label := range []string{"obj", "dir", "from", "to"} {
		if none := " " + label + "=none"; strings.Contains(theirs, none) {
			given := regexp.MustCompile(" " + label + "=[^ ]*")
			ours = given.ReplaceAllString(ours, "")
			theirs = strings.ReplaceAll(theirs, none, "")
		}
	}
	return ours, theirs
}
