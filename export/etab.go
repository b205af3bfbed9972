package export

import (
	"fmt"
	"strings"
)

// EtabLines returns the table as nfs-utils writes it to /var/lib/nfs/etab,
// every option spelled out, exports by path and entries in file order.
// nfs-utils does not escape a mountpoint= and takes the number of squash_uids
// for that of squash_gids; here both are right.
func (t *Table) EtabLines() []string {
	var lines []string
	for _, x := range t.exports {
		for _, e := range x.Entries {
			lines = append(lines, e.EtabLine())
		}
	}
	return lines
}

// EtabLine is the line of one entry.
func (e *Entry) EtabLine() string {
	s := &e.Options.set
	var b strings.Builder
	escapePath(&b, e.Export.Path)
	b.WriteString("\t" + e.Client.Name + "(")
	b.WriteString(s.list())
	for i := 0; i < s.nsec; {
		b.WriteString(",sec=" + s.sec[i].name)
		j := i + 1
		for ; j < s.nsec && s.sec[j].flags == s.sec[i].flags; j++ {
			b.WriteString(":" + s.sec[j].name)
		}
		f := s.sec[i].flags
		b.WriteString("," + word(f, NFSEXP_READONLY, "ro", "rw"))
		b.WriteString("," + word(f, NFSEXP_ROOTSQUASH, "root_squash", "no_root_squash"))
		b.WriteString("," + word(f, NFSEXP_ALLSQUASH, "all_squash", "no_all_squash"))
		i = j
	}
	b.WriteByte(')')
	return b.String()
}

func word(f, bit Flags, set, unset string) string {
	if f&bit != 0 {
		return set
	}
	return unset
}

// etabWords are the flags in the order of nfs-utils' putexportent. An empty
// word is left out.
var etabWords = []struct {
	bit        Flags
	set, unset string
}{
	{NFSEXP_READONLY, "ro", "rw"},
	{NFSEXP_ASYNC, "async", "sync"},
	{NFSEXP_GATHERED_WRITES, "wdelay", "no_wdelay"},
	{NFSEXP_NOHIDE, "nohide", "hide"},
	{NFSEXP_CROSSMOUNT, "crossmnt", "nocrossmnt"},
	{NFSEXP_INSECURE_PORT, "insecure", "secure"},
	{NFSEXP_ROOTSQUASH, "root_squash", "no_root_squash"},
	{NFSEXP_ALLSQUASH, "all_squash", "no_all_squash"},
	{NFSEXP_NOSUBTREECHECK, "no_subtree_check", "subtree_check"},
	{NFSEXP_NOAUTHNLM, "insecure_locks", "secure_locks"},
	{NFSEXP_NOACL, "no_acl", "acl"},
	{NFSEXP_NOREADDIRPLUS, "nordirplus", ""},
	{NFSEXP_SECURITY_LABEL, "security_label", ""},
	{NFSEXP_PNFS, "pnfs", "no_pnfs"},
}

// list is the options up to sec=.
func (s *optionSet) list() string {
	var b strings.Builder
	for _, w := range etabWords {
		if x := word(s.flags, w.bit, w.set, w.unset); x != "" {
			b.WriteString(x + ",")
		}
	}
	if s.flags&NFSEXP_FSID != 0 {
		fmt.Fprintf(&b, "fsid=%d,", int32(s.fsid))
	}
	if s.uuid != "" {
		b.WriteString("fsid=")
		escapePath(&b, s.uuid)
		b.WriteByte(',')
	}
	if s.mountpoint.Set {
		b.WriteString("mountpoint")
		if s.mountpoint.Path != "" {
			b.WriteByte('=')
			escapePath(&b, s.mountpoint.Path)
		}
		b.WriteByte(',')
	}
	if s.locations.Method != "" {
		b.WriteString(s.locations.Method + "=")
		escapePath(&b, s.locations.Data)
		b.WriteByte(',')
	}
	ranges(&b, "squash_uids=", s.squashUIDs)
	ranges(&b, "squash_gids=", s.squashGIDs)
	fmt.Fprintf(&b, "anonuid=%d,anongid=%d", s.anonUID, s.anonGID)
	return b.String()
}

// ranges writes a list as nfs-utils does, though it can read back only one of
// a single range.
func ranges(b *strings.Builder, name string, list []IDRange) {
	for i, r := range list {
		if i == 0 {
			b.WriteString(name)
		}
		if r.First == r.Last {
			fmt.Fprintf(b, "%d,", r.First)
		} else {
			fmt.Fprintf(b, "%d-%d,", r.First, r.Last)
		}
	}
}

// escapePath writes control characters, white space, '"', '\' and '#' in
// octal (nfs-utils, fprintpath).
func escapePath(b *strings.Builder, s string) {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c == 0x7f || c == '"' || c == '\\' || c == '#' {
			fmt.Fprintf(b, "\\%03o", c)
		} else {
			b.WriteByte(c)
		}
	}
}
