package nfsd

import "golang.org/x/sys/unix"

// statusOf turns an error of a system call into an NFS status, as Linux's
// nfserrno does (fs/nfsd/vfs.c).
func statusOf(err error) nfsstat3 {
	errno, ok := err.(unix.Errno)
	if !ok {
		if err == nil {
			return nfs3OK
		}
		return nfs3ErrIO
	}
	switch errno {
	case unix.EPERM:
		return nfs3ErrPerm
	case unix.ENOENT:
		return nfs3ErrNoent
	case unix.ENXIO:
		return nfs3ErrNxio
	case unix.EACCES:
		return nfs3ErrAcces
	case unix.ENODEV:
		return nfs3ErrNodev
	case unix.ENOTDIR:
		return nfs3ErrNotdir
	case unix.EISDIR:
		return nfs3ErrIsdir
	case unix.EINVAL:
		return nfs3ErrInval
	case unix.EFBIG:
		return nfs3ErrFbig
	case unix.ENAMETOOLONG:
		return nfs3ErrNametoolong
	case unix.EDQUOT:
		return nfs3ErrDquot
	case unix.ESTALE:
		return nfs3ErrStale
	case unix.EOPNOTSUPP:
		return nfs3ErrNotsupp
	case unix.EAGAIN, unix.ENOMEM, unix.ETXTBSY, unix.EMFILE, unix.ENFILE, unix.ETIMEDOUT:
		// The client tries again later (section 2.6, NFS3ERR_JUKEBOX).
		return nfs3ErrJukebox
	}
	return nfs3ErrIO
}
