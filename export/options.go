package export

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Options are the options of one entry, defaults filled in.
type Options struct {
	ReadOnly      bool
	Async         bool
	WDelay        bool
	NoHide        bool
	CrossMount    bool
	Secure        bool
	RootSquash    bool
	AllSquash     bool
	SubtreeCheck  bool
	SecureLocks   bool
	ACL           bool
	ReaddirPlus   bool
	SecurityLabel bool
	PNFS          bool

	AnonUID, AnonGID uint32

	FSID       FSID
	Mountpoint Mountpoint
	Locations  Locations

	// SquashUIDs and SquashGIDs are squash_uids= and squash_gids=. exportfs
	// carries them into its table; the kernel has no such thing, and neither
	// has Squash.
	SquashUIDs, SquashGIDs []IDRange

	// Sec holds the allowed flavours in the order of preference, at least
	// one. The fields above that may differ by flavour (ReadOnly, Secure, the
	// squashing) hold for no caller: use Entry.Flavor.
	Sec []FlavorOptions

	set optionSet
}

// FSID is the fsid= option: a number, a UUID or both.
type FSID struct {
	HasNumber bool
	Number    uint32 // 0 is fsid=root
	UUID      string // as written: 32 hexadecimal digits and any punctuation
}

// Key names what the option gives an export, the same for the same: empty
// without one, else "N" or "UUID" in one spelling. The number goes first.
func (f FSID) Key() string {
	switch {
	case f.HasNumber:
		return strconv.FormatUint(uint64(f.Number), 10)
	case f.UUID != "":
		return strings.Map(func(r rune) rune {
			if strings.ContainsRune("0123456789abcdef", r) {
				return r
			}
			return -1
		}, strings.ToLower(f.UUID))
	}
	return ""
}

// Mountpoint is the mp= option: the export holds only while Path, or the
// export itself where Path is empty, is a mount point.
type Mountpoint struct {
	Set  bool
	Path string
}

// Locations is refer= or replicas=, for NFSv4 clients.
type Locations struct {
	Method string // "refer", "replicas" or ""
	Data   string
}

// IDRange is a range of ids, both ends included.
type IDRange struct{ First, Last int32 }

// secEntry is a flavour that sec= named, with flags of its own.
type secEntry struct {
	name   string
	flavor uint32
	flags  Flags
}

// maxFlavors is the number of distinct flavours there are.
const maxFlavors = 5

// flavors are the names that sec= takes (nfs-utils' flav_map).
var flavors = []struct {
	name   string
	number uint32
}{
	{"krb5", RPC_AUTH_GSS_KRB5},
	{"krb5i", RPC_AUTH_GSS_KRB5I},
	{"krb5p", RPC_AUTH_GSS_KRB5P},
	{"unix", AUTH_SYS},
	{"sys", AUTH_SYS},
	{"null", AUTH_NONE},
	{"none", AUTH_NONE},
}

// optionSet is the state while options are read, the counterpart of nfs-utils'
// struct exportent. Copying it gives an independent set, which is how the
// defaults of a line reach its clients.
type optionSet struct {
	flags            Flags
	anonUID, anonGID int32
	fsid             uint32
	uuid             string
	mountpoint       Mountpoint
	locations        Locations
	squashUIDs       []IDRange
	squashGIDs       []IDRange
	sec              [maxFlavors]secEntry
	nsec             int

	// refused is set where a value is an error here though not for exportfs:
	// entries with this set are dropped, others of the file are kept.
	refused bool
}

func defaultOptionSet() optionSet {
	return optionSet{flags: defaultFlags, anonUID: 65534, anonGID: 65534}
}

// option is a row of the table of options.
type option struct {
	set, clear Flags
	// value, for NAME=VALUE. It reports what is wrong and whether the option
	// was understood; if not, the rest of the file is abandoned.
	value func(p *optionParser, v string) bool
	// bare, for an option with a value that may also stand alone.
	bare func(p *optionParser)
	// note says what becomes of it in an NFSv3 server that only reads, where
	// that is worth a message.
	note string
}

const (
	noteV4  = "it concerns NFSv4 only"
	noteIDs = "neither Linux nfsd nor this server squashes ranges of ids; use all_squash or root_squash"
)

// options is every option of exports(5) that nfs-utils 2.6.2 knows.
var options = map[string]option{
	"ro":               {set: NFSEXP_READONLY},
	"rw":               {clear: NFSEXP_READONLY},
	"secure":           {clear: NFSEXP_INSECURE_PORT},
	"insecure":         {set: NFSEXP_INSECURE_PORT},
	"sync":             {clear: NFSEXP_ASYNC},
	"async":            {set: NFSEXP_ASYNC},
	"nordirplus":       {set: NFSEXP_NOREADDIRPLUS},
	"security_label":   {set: NFSEXP_SECURITY_LABEL, note: noteV4},
	"nohide":           {set: NFSEXP_NOHIDE},
	"hide":             {clear: NFSEXP_NOHIDE},
	"crossmnt":         {set: NFSEXP_CROSSMOUNT},
	"nocrossmnt":       {clear: NFSEXP_CROSSMOUNT},
	"wdelay":           {set: NFSEXP_GATHERED_WRITES},
	"no_wdelay":        {clear: NFSEXP_GATHERED_WRITES},
	"root_squash":      {set: NFSEXP_ROOTSQUASH},
	"no_root_squash":   {clear: NFSEXP_ROOTSQUASH},
	"all_squash":       {set: NFSEXP_ALLSQUASH},
	"no_all_squash":    {clear: NFSEXP_ALLSQUASH},
	"subtree_check":    {clear: NFSEXP_NOSUBTREECHECK},
	"no_subtree_check": {set: NFSEXP_NOSUBTREECHECK},
	"auth_nlm":         {clear: NFSEXP_NOAUTHNLM},
	"no_auth_nlm":      {set: NFSEXP_NOAUTHNLM},
	"secure_locks":     {clear: NFSEXP_NOAUTHNLM},
	"insecure_locks":   {set: NFSEXP_NOAUTHNLM},
	"acl":              {clear: NFSEXP_NOACL},
	"no_acl":           {set: NFSEXP_NOACL},
	"pnfs":             {set: NFSEXP_PNFS, note: noteV4},
	"no_pnfs":          {clear: NFSEXP_PNFS},
	"anonuid":          {value: (*optionParser).anonUID},
	"anongid":          {value: (*optionParser).anonGID},
	"squash_uids":      {value: (*optionParser).squashUIDs, note: noteIDs},
	"squash_gids":      {value: (*optionParser).squashGIDs, note: noteIDs},
	"fsid":             {value: (*optionParser).fsid},
	"mountpoint":       {value: (*optionParser).mountpoint, bare: (*optionParser).mountpointSelf},
	"mp":               {value: (*optionParser).mountpoint, bare: (*optionParser).mountpointSelf},
	"refer":            {value: (*optionParser).refer, note: noteV4},
	"replicas":         {value: (*optionParser).replicas, note: noteV4},
	"sec":              {value: (*optionParser).sec},
}

// newerOptions are of releases after the one that is the reference.
var newerOptions = map[string]string{
	"xprtsec":  "nfs-utils 2.6.4, for RPC over TLS, which is not served here",
	"reexport": "nfs-utils 2.6.3, for re-exporting NFS, which is not served here",
	"sign_fh":  "a later nfs-utils; file handles are always authenticated here",
}

// optionParser reads one option list into set.
type optionParser struct {
	rep  *reporter
	lex  *lexer
	tok  *token
	base int // where the list starts in tok.text
	set  *optionSet

	// active are the flavours (bits of set.sec) of the last sec= in this
	// list: what follows binds to them (exports(5), sec=).
	active uint
	// off and n are the option being read, within tok.text.
	off, n int
}

// parse reads a comma-separated list. Blanks may start it and follow a comma;
// a trailing comma is fine and an empty option is not (nfs-utils, parseopts).
// It returns false if the rest of the file is to be abandoned.
func (p *optionParser) parse(list []byte) bool {
	i := skipBlanks(list, 0)
	for i < len(list) {
		n := bytes.IndexByte(list[i:], ',')
		next := i + n + 1
		if n < 0 {
			n = len(list) - i
			next = len(list)
		}
		p.off, p.n = p.base+i, n
		if !p.option(string(list[i : i+n])) {
			return false
		}
		i = skipBlanks(list, next)
	}
	p.alignFlavors()
	return true
}

func skipBlanks(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t') {
		i++
	}
	return i
}

func (p *optionParser) option(opt string) bool {
	name, value, valued := strings.Cut(opt, "=")
	o, known := options[name]
	switch {
	case known && valued && o.value != nil:
		if !o.value(p, value) {
			return false
		}
	case known && !valued && o.bare != nil:
		o.bare(p)
	case known && !valued && o.value == nil:
		p.flag(o.set, o.clear)
	default:
		p.unknown(opt, name, valued)
		return false
	}
	if o.note != "" && !p.set.refused {
		p.rep.at(p.span(), Note, o.note, "%s has no effect", name)
	}
	return true
}

func (p *optionParser) span() span { return p.lex.span(p.tok, p.off, p.off+p.n) }

// flag sets and clears flags of the export and of the flavours in force.
func (p *optionParser) flag(set, clear Flags) {
	p.set.flags = p.set.flags&^clear | set
	for i := range p.set.nsec {
		if p.active&(1<<i) != 0 {
			p.set.sec[i].flags = p.set.sec[i].flags&^clear | set
		}
	}
}

// alignFlavors carries what may not differ by flavour from the export to its
// flavours (nfs-utils, fix_pseudoflavor_flags, which only adds).
func (p *optionParser) alignFlavors() {
	for i := range p.set.nsec {
		p.set.sec[i].flags |= p.set.flags &^ secinfoFlags
	}
}

func (p *optionParser) unknown(opt, name string, valued bool) {
	lower := strings.ToLower(strings.TrimSpace(name))
	o, known := options[lower]
	hint := ""
	switch {
	case opt == "":
		p.rep.at(p.span(), Error, "remove one comma", "empty option")
		return
	case newerOptions[name] != "":
		hint = name + " is of " + newerOptions[name]
	case known && o.value == nil && valued:
		hint = lower + " takes no value"
	case known && o.value != nil && !valued && lower == name:
		hint = name + " needs a value: " + name + "=…"
	case known && lower != name && strings.TrimSpace(name) != name:
		hint = "no blank may stand before a comma"
	case known:
		hint = "option names are in lower case: " + lower
	case strings.ContainsAny(opt, ";:") && !valued:
		hint = "options are separated by commas"
	case strings.ContainsAny(opt, "()"):
		hint = "default options are written without parentheses: -ro,sync"
	case isDigits(opt):
		hint = "a list of ids is not possible: repeat the option for each range"
	default:
		hint = suggestOption(name)
	}
	p.rep.at(p.span(), Error, hint, "unknown option %q; the rest of the file is not read", opt)
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789-") == ""
}

// suggestOption returns the option that name is a misspelling of, as a hint.
func suggestOption(name string) string {
	names := make([]string, 0, len(options))
	for n := range options {
		names = append(names, n)
	}
	slices.Sort(names)
	if s := closest(name, names); s != "" {
		return fmt.Sprintf("did you mean %s?", s)
	}
	return ""
}

// finish turns the set into what callers see.
func (s *optionSet) finish() Options {
	if s.nsec == 0 {
		s.sec[0] = secEntry{"sys", AUTH_SYS, s.flags}
		s.nsec = 1
	}
	has := func(f Flags) bool { return s.flags&f != 0 }
	o := Options{
		ReadOnly:      has(NFSEXP_READONLY),
		Async:         has(NFSEXP_ASYNC),
		WDelay:        has(NFSEXP_GATHERED_WRITES),
		NoHide:        has(NFSEXP_NOHIDE),
		CrossMount:    has(NFSEXP_CROSSMOUNT),
		Secure:        !has(NFSEXP_INSECURE_PORT),
		RootSquash:    has(NFSEXP_ROOTSQUASH),
		AllSquash:     has(NFSEXP_ALLSQUASH),
		SubtreeCheck:  !has(NFSEXP_NOSUBTREECHECK),
		SecureLocks:   !has(NFSEXP_NOAUTHNLM),
		ACL:           !has(NFSEXP_NOACL),
		ReaddirPlus:   !has(NFSEXP_NOREADDIRPLUS),
		SecurityLabel: has(NFSEXP_SECURITY_LABEL),
		PNFS:          has(NFSEXP_PNFS),
		AnonUID:       uint32(s.anonUID),
		AnonGID:       uint32(s.anonGID),
		FSID:          FSID{HasNumber: has(NFSEXP_FSID), Number: s.fsid, UUID: s.uuid},
		Mountpoint:    s.mountpoint,
		Locations:     s.locations,
		SquashUIDs:    s.squashUIDs,
		SquashGIDs:    s.squashGIDs,
		set:           *s,
	}
	for _, e := range s.sec[:s.nsec] {
		o.Sec = append(o.Sec, FlavorOptions{
			Flavor:     e.flavor,
			Name:       e.name,
			ReadOnly:   e.flags&NFSEXP_READONLY != 0,
			Secure:     e.flags&NFSEXP_INSECURE_PORT == 0,
			RootSquash: e.flags&NFSEXP_ROOTSQUASH != 0,
			AllSquash:  e.flags&NFSEXP_ALLSQUASH != 0,
			AnonUID:    o.AnonUID,
			AnonGID:    o.AnonGID,
		})
	}
	return o
}
