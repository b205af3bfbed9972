package peers

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// This file turns replies into short texts that two servers can be compared
// by: what must differ between servers (handles, cookies, verifiers, fsid) is
// left out or replaced by what it stands for, and what must agree with the
// file system (attributes, data) is replaced by the result of that check.

var statusNames = map[uint32]string{0: "OK", 1: "PERM", 2: "NOENT", 5: "IO", 6: "NXIO", 13: "ACCES", 17: "EXIST", 18: "XDEV", 19: "NODEV",
	20: "NOTDIR", 21: "ISDIR", 22: "INVAL", 27: "FBIG", 28: "NOSPC", 30: "ROFS", 31: "MLINK", 63: "NAMETOOLONG", 66: "NOTEMPTY",
	69: "DQUOT", 70: "STALE", 71: "REMOTE", 10001: "BADHANDLE", 10002: "NOT_SYNC", 10003: "BAD_COOKIE", 10004: "NOTSUPP",
	10005: "TOOSMALL", 10006: "SERVERFAULT", 10007: "BADTYPE", 10008: "JUKEBOX"}

func statusName(s uint32) string {
	if name, ok := statusNames[s]; ok {
		return name
	}
	return fmt.Sprintf("status %d", s)
}

// renderRPC renders everything but the results of an accepted call.
func renderRPC(r *rpcReply) string {
	d := &dec{b: r.body}
	var text string
	switch {
	case r.denied && r.accept == 0:
		text = fmt.Sprintf("RPC_MISMATCH %d..%d", d.u32(), d.u32())
	case r.denied:
		text = authName(d.u32())
	case r.accept == 1:
		text = "PROG_UNAVAIL"
	case r.accept == 2:
		text = fmt.Sprintf("PROG_MISMATCH %d..%d", d.u32(), d.u32())
	default:
		text = map[uint32]string{3: "PROC_UNAVAIL", 4: "GARBAGE_ARGS", 5: "SYSTEM_ERR"}[r.accept]
	}
	if err := d.end(); err != nil {
		text += fmt.Sprintf(" MALFORMED (%v)", err)
	}
	return text
}

func authName(stat uint32) string {
	if name, ok := map[uint32]string{1: "BADCRED", 2: "REJECTEDCRED", 3: "BADVERF", 5: "TOOWEAK"}[stat]; ok {
		return "AUTH_" + name
	}
	return fmt.Sprintf("auth_stat %d", stat)
}

// renderer renders one reply's results.
type renderer struct {
	*dec
	s     *side
	parts []string
}

func (r *renderer) add(format string, args ...any) {
	r.parts = append(r.parts, fmt.Sprintf(format, args...))
}

// results renders the results of an NFS procedure: the status, and what f
// makes of the rest.
func (s *side) results(body []byte, ok, fail func(*renderer)) string {
	r := &renderer{dec: &dec{b: body}, s: s}
	status := r.u32()
	r.add("%s", statusName(status))
	if status == 0 {
		ok(r)
	} else {
		fail(r)
	}
	if err := r.end(); err != nil {
		r.add("MALFORMED (%v)", err)
	}
	return strings.Join(r.parts, " ")
}

func nothing(*renderer) {}

// attr renders attributes as the path they belong to, and where they differ
// from what lstat says.
func (r *renderer) attr(label string) {
	var a [5]uint32 // type, mode, nlink, uid, gid
	for i := range a {
		a[i] = r.u32()
	}
	size, used := r.u64(), r.u64()
	major, minor := r.u32(), r.u32()
	fsid, fileid := r.u64(), r.u64()
	r.take(8) // atime: the reading itself changes it
	mtime, ctime := r.u64(), r.u64()
	if r.err != nil {
		return
	}
	path := r.s.pathOf(fileid)
	var st unix.Stat_t
	if err := unix.Lstat(r.s.abs(path), &st); err != nil {
		r.add("%s=fileid %d?", label, fileid)
		return
	}
	text := label + "=" + path
	check := func(what string, got, want uint64) {
		if got != want {
			text += fmt.Sprintf("!%s %d, not %d", what, got, want)
		}
	}
	check("type", uint64(a[0]), uint64(nfsType(st.Mode)))
	check("mode", uint64(a[1]), uint64(st.Mode&0o7777))
	check("nlink", uint64(a[2]), uint64(st.Nlink))
	check("uid", uint64(a[3]), uint64(st.Uid))
	check("gid", uint64(a[4]), uint64(st.Gid))
	check("size", size, uint64(st.Size))
	check("used", used, uint64(st.Blocks)*512)
	check("major", uint64(major), uint64(unix.Major(st.Rdev)))
	check("minor", uint64(minor), uint64(unix.Minor(st.Rdev)))
	check("fsid", fsid, r.s.firstFsid(fsid))
	check("mtime", mtime, uint64(st.Mtim.Sec)<<32|uint64(st.Mtim.Nsec))
	check("ctime", ctime, uint64(st.Ctim.Sec)<<32|uint64(st.Ctim.Nsec))
	r.add("%s", text)
}

// nfsType returns RFC 1813's ftype3.
func nfsType(mode uint32) uint32 {
	return map[uint32]uint32{unix.S_IFREG: 1, unix.S_IFDIR: 2, unix.S_IFBLK: 3, unix.S_IFCHR: 4,
		unix.S_IFLNK: 5, unix.S_IFSOCK: 6, unix.S_IFIFO: 7}[mode&unix.S_IFMT]
}

// postOp renders post_op_attr: absent attributes are legal everywhere.
func (r *renderer) postOp(label string) {
	if r.bool() {
		r.attr(label)
	} else {
		r.add("%s=none", label)
	}
}

func postOp(label string) func(*renderer) { return func(r *renderer) { r.postOp(label) } }

// wcc renders wcc_data: what the object was like before and after.
func (r *renderer) wcc(label string) {
	if r.bool() {
		r.take(24) // size, mtime, ctime
		r.add("%s-before=given", label)
	}
	r.postOp(label)
}

func wcc(labels ...string) func(*renderer) {
	return func(r *renderer) {
		for _, l := range labels {
			r.wcc(l)
		}
	}
}

// handle renders a handle as the object that GETATTR finds behind it.
func (r *renderer) handle() {
	fh := r.opaque()
	if r.err == nil {
		r.add("handle->%s", r.s.handleName(fh))
	}
}

func okLookup(r *renderer) {
	r.handle()
	r.postOp("obj")
	r.postOp("dir")
}

func okAccess(r *renderer) {
	r.postOp("obj")
	r.add("bits=%#x", r.u32())
}

func okReadlink(r *renderer) {
	r.postOp("obj")
	r.add("target=%.40q", r.opaque())
}

// okRead needs the case to say which file's data to expect where.
func okRead(path string, offset uint64) func(*renderer) {
	return func(r *renderer) {
		r.postOp("obj")
		count, eof, data := r.u32(), r.bool(), r.opaque()
		r.add("count=%d eof=%v", count, eof)
		if int(count) != len(data) || !r.s.holds(path, offset, data) {
			r.add("WRONG DATA (%d bytes)", len(data))
		}
	}
}

func okFsstat(r *renderer) {
	r.postOp("obj")
	var st unix.Statfs_t
	if err := unix.Statfs(r.s.tree.dir, &st); err != nil {
		r.err = err
		return
	}
	bs := uint64(st.Frsize)
	for _, f := range []struct {
		name string
		want uint64
	}{{"tbytes", st.Blocks * bs}, {"fbytes", st.Bfree * bs}, {"abytes", st.Bavail * bs}, {"tfiles", st.Files}, {"ffiles", st.Ffree}, {"afiles", st.Ffree}} {
		// The rest of the machine is writing too: a per mille off is equal.
		if got := r.u64(); max(got, f.want)-min(got, f.want) > f.want/1000 {
			r.add("%s=%d, not %d", f.name, got, f.want)
		}
	}
	r.add("invarsec=%d", r.u32())
}

func okFsinfo(r *renderer) {
	r.postOp("obj")
	for _, name := range []string{"rtmax", "rtpref", "rtmult", "wtmax", "wtpref", "wtmult", "dtpref"} {
		r.add("%s=%d", name, r.u32())
	}
	r.add("maxfilesize=%#x", r.u64())
	r.add("time_delta=%d.%09d", r.u32(), r.u32())
	r.add("properties=%#x", r.u32())
}

func okPathconf(r *renderer) {
	r.postOp("obj")
	r.add("linkmax=%d name_max=%d", r.u32(), r.u32())
	for _, name := range []string{"no_trunc", "chown_restricted", "case_insensitive", "case_preserving"} {
		r.add("%s=%v", name, r.bool())
	}
}

// okMount renders a mounted handle and the list of flavours.
func okMount(r *renderer) {
	r.handle()
	n := r.u32()
	for range min(n, 16) {
		r.add("flavour=%d", r.u32())
	}
}
