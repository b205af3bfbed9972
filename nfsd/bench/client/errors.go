package client

import (
	"errors"
	"fmt"
)

const (
	msgReply      = 1
	replyAccepted = 0
	// MaxVerifier bounds an opaque_auth body, RFC 5531 section 8.2.
	MaxVerifier = 400
)

// acceptError explains an accept_stat, RFC 5531 section 9.
func acceptError(stat uint32) error {
	switch stat {
	case 1, 2: // PROG_UNAVAIL, PROG_MISMATCH
		return errUnavailable
	case 3:
		return errors.New("the server does not have the procedure (PROC_UNAVAIL)")
	case 4:
		return errors.New("the server could not read the call (GARBAGE_ARGS)")
	case 5:
		return errors.New("the server failed (SYSTEM_ERR)")
	}
	return fmt.Errorf("the server answered with accept_stat %d", stat)
}

// deniedError explains a denied call; authStat means something if stat is
// AUTH_ERROR.
func deniedError(stat, authStat uint32) error {
	if stat == 1 {
		return fmt.Errorf("the server refused the caller's identity (auth_stat %d); does the export allow sec=sys?", authStat)
	}
	return fmt.Errorf("the server denied the call (reject_stat %d)", stat)
}

// Status is an nfsstat3 or mountstat3 other than OK.
type Status uint32

// names are of RFC 1813 sections 2.6 and 5.1.5, which agree where both have a
// number.
var names = map[Status]string{
	1: "NFS3ERR_PERM", 2: "NFS3ERR_NOENT", 5: "NFS3ERR_IO", 6: "NFS3ERR_NXIO", 13: "NFS3ERR_ACCES",
	17: "NFS3ERR_EXIST", 18: "NFS3ERR_XDEV", 19: "NFS3ERR_NODEV", 20: "NFS3ERR_NOTDIR", 21: "NFS3ERR_ISDIR",
	22: "NFS3ERR_INVAL", 27: "NFS3ERR_FBIG", 28: "NFS3ERR_NOSPC", 30: "NFS3ERR_ROFS", 31: "NFS3ERR_MLINK",
	63: "NFS3ERR_NAMETOOLONG", 66: "NFS3ERR_NOTEMPTY", 69: "NFS3ERR_DQUOT", 70: "NFS3ERR_STALE",
	71: "NFS3ERR_REMOTE", 10001: "NFS3ERR_BADHANDLE", 10002: "NFS3ERR_NOT_SYNC", 10003: "NFS3ERR_BAD_COOKIE",
	10004: "NFS3ERR_NOTSUPP", 10005: "NFS3ERR_TOOSMALL", 10006: "NFS3ERR_SERVERFAULT", 10007: "NFS3ERR_BADTYPE",
	10008: "NFS3ERR_JUKEBOX",
}

func (s Status) Error() string {
	if n, ok := names[s]; ok {
		return n
	}
	return fmt.Sprintf("status %d", uint32(s))
}
