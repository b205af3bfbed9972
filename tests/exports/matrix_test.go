package exports

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"sluice/tests/protocol/wire"
)

// everyID are the users that matrix files belong to: what a caller can read of
// them tells who the server takes him for.
var everyID = []int{0, 1000, 65534, 2001, 2002, 2003, 2004, 2005, 2006}

const (
	nobody = 65534 // exports(5), anonuid: "the default is 65534"
	user   = 1000
)

// plantIDs makes a file for each user that only he, and root, can read.
func plantIDs(t *testing.T, dir string) {
	t.Helper()
	must(t, os.MkdirAll(dir, 0o755))
	for _, id := range everyID {
		p := fmt.Sprintf("%s/%d", dir, id)
		must(t, os.WriteFile(p, []byte("x"), 0o400))
		must(t, os.Chown(p, id, id))
	}
}

// whoIs says who the server takes a caller for: root reads everything.
func (c *client) whoIs(dir []byte) int {
	c.t.Helper()
	var can []int
	for _, id := range everyID {
		if st, _ := c.read(c.find(dir, fmt.Sprint(id))); st == wire.OK {
			can = append(can, id)
		}
	}
	switch {
	case len(can) == len(everyID):
		return 0
	case len(can) == 1:
		return can[0]
	}
	c.t.Errorf("reads the files of %v", can)
	return -1
}

// matrixExports has the entries. In those for "kinds" the order in the file is
// the reverse of the precedence.
const matrixExports = `
%[1]s/kinds *(ro,all_squash,anonuid=2005) @trusted(ro,all_squash,anonuid=2004) *.lab.test(ro,all_squash,anonuid=2003) 10.77.1.0/31(ro,all_squash,anonuid=2002) 10.77.1.1(ro,all_squash,anonuid=2001)
%[1]s/wide 10.0.0.0/8(ro,all_squash,anonuid=2001) 10.77.2.0/24(ro,all_squash,anonuid=2002)
%[1]s/narrow 10.77.2.0/24(ro,all_squash,anonuid=2002) 10.0.0.0/8(ro,all_squash,anonuid=2001)
%[1]s/mask 10.77.3.0/255.255.255.0(ro) 2001:db8:3::/48(ro)
%[1]s/wild ?ne.lab.test(ro) [st]*.LAB.test(ro)
%[1]s/host two.lab.test(ro) 2001:db8:2::1(ro)
%[1]s/group @trusted(ro)
%[1]s/blank 10.77.4.1 (ro,all_squash)
%[1]s/world -ro,all_squash,anonuid=2006
%[1]s/outer 10.77.6.1(ro,all_squash,anonuid=2001)
%[1]s/outer/inner 10.77.6.2(ro,all_squash,anonuid=2002)
%[1]s/squash/default 10.77.7.1(ro)
%[1]s/squash/none 10.77.7.1(ro,no_root_squash)
%[1]s/squash/all 10.77.7.1(ro,all_squash)
%[1]s/squash/both 10.77.7.1(ro,no_root_squash,all_squash)
%[1]s/squash/anon 10.77.7.1(ro,anonuid=2001,anongid=2001)
%[1]s/squash/last 10.77.7.1(ro,all_squash,no_all_squash)
%[1]s/squash/wildnet 10.77.7.*(ro)
`

// The rules are those of exports(5), "Machine Name Formats": single host, IP
// networks, wildcards, netgroups, anonymous; of one kind the first in the file.
func TestMatrix(t *testing.T) {
	nameService(t)
	dir := tree(t)
	text := fmt.Sprintf(matrixExports, dir)
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) > 0 {
			plantIDs(t, f[0])
		}
	}
	s := startServer(t, text)
	const refused = -1
	for _, row := range []struct {
		client, path string
		as           uint32
		want         int // who he is, or refused
	}{
		{"10.77.1.1", "kinds", user, 2001},     // the host
		{"10.77.1.0", "kinds", user, 2002},     // the network
		{"10.77.1.2", "kinds", user, 2003},     // the wildcard
		{"10.77.1.3", "kinds", user, 2003},     // whatever the case
		{"10.77.1.4", "kinds", user, 2003},     // "*" matches dots too
		{"10.77.5.5", "kinds", user, 2004},     // the netgroup, by name
		{"10.77.5.6", "kinds", user, 2004},     // by address
		{"10.77.9.9", "kinds", user, 2005},     // everyone else
		{"2001:db8:1::1", "kinds", user, 2003}, // by its name
		{"2001:db8:5::7", "kinds", user, 2004}, // in an inner netgroup
		{"2001:db8:9::9", "kinds", user, 2005},
		{"::ffff:10.77.1.1", "kinds", user, 2001},

		{"10.77.2.5", "wide", user, 2001}, // the first, not the longest prefix
		{"10.77.2.5", "narrow", user, 2002},
		{"10.77.3.5", "narrow", user, 2001},
		{"2001:db8::1", "wide", user, refused},

		{"10.77.3.5", "mask", user, user},
		{"10.77.4.5", "mask", user, refused},
		{"2001:db8:3:ffff::5", "mask", user, user},
		{"2001:db8:4::5", "mask", user, refused},

		{"10.77.1.1", "wild", user, user},
		{"10.77.1.2", "wild", user, user}, // two.lab.test
		{"10.77.1.3", "wild", user, user}, // THREE.Lab.Test
		{"10.77.1.4", "wild", user, refused},
		{"10.77.9.9", "wild", user, refused},
		{"2001:db8:1::1", "wild", user, user}, // six.lab.test

		{"10.77.1.2", "host", user, user},
		{"10.77.1.1", "host", user, refused},
		{"2001:db8:2::1", "host", user, user},
		{"2001:db8:2::2", "host", user, refused},

		{"10.77.5.5", "group", user, user},
		{"10.77.5.6", "group", user, user},
		{"10.77.1.1", "group", user, refused}, // empty host parts match nobody

		// "client (options)" is client with the defaults, and the options for the world.
		{"10.77.4.1", "blank", user, user},
		{"10.77.9.9", "blank", user, nobody},
		{"10.77.9.9", "world", user, 2006},

		{"10.77.6.1", "outer", user, 2001},
		{"10.77.6.1", "outer/inner", user, 2001}, // by the outer one
		{"10.77.6.2", "outer/inner", user, 2002},
		{"10.77.6.2", "outer", user, refused},
		{"10.77.6.3", "outer/inner", user, refused},

		{"10.77.7.1", "squash/default", 0, nobody},
		{"10.77.7.1", "squash/default", user, user},
		{"10.77.7.1", "squash/none", 0, 0},
		{"10.77.7.1", "squash/none", user, user},
		{"10.77.7.1", "squash/all", 0, nobody},
		{"10.77.7.1", "squash/all", user, nobody},
		{"10.77.7.1", "squash/both", 0, nobody},
		{"10.77.7.1", "squash/anon", 0, 2001},
		{"10.77.7.1", "squash/anon", user, user},
		{"10.77.7.1", "squash/last", user, user},
		{"10.77.7.1", "squash/wildnet", user, refused}, // wildcards match no address
	} {
		t.Run(fmt.Sprintf("%s/%s/%d", row.client, row.path, row.as), func(t *testing.T) {
			c := s.from(row.client).as(wire.Sys(row.as, row.as))
			c.t = t
			st, fh := c.mnt(dir + "/" + row.path)
			switch {
			case row.want == refused:
				if st != wire.ErrAcces {
					t.Errorf("MNT: status %d, want MNT3ERR_ACCES", st)
				}
			case st != 0:
				t.Errorf("MNT: status %d, want MNT3_OK", st)
			default:
				if got := c.whoIs(fh); got != row.want {
					t.Errorf("is taken for %d, want %d", got, row.want)
				}
			}
		})
	}
}

// Groups are squashed with their user, and count otherwise: root_squash maps each
// group 0, all_squash leaves none (nfsd_setuser, fs/nfsd/auth.c).
func TestSquashGroups(t *testing.T) {
	dir := tree(t, "a/zero", "a/five", "b/five")
	for name, gid := range map[string]int{"a/zero": 0, "a/five": 5, "b/five": 5} {
		must(t, os.Chown(dir+"/"+name, 9, gid))
		must(t, os.Chmod(dir+"/"+name, 0o040))
	}
	s := startServer(t, fmt.Sprintf("%[1]s/a *(ro)\n%[1]s/b *(ro,all_squash)\n", dir))
	c := s.from(inside).as(wire.Sys(user, user, 0, 5))
	a, b := c.mount(dir+"/a"), c.mount(dir+"/b")
	for _, row := range []struct {
		dir  []byte
		name string
		want uint32
	}{{a, "zero", wire.ErrAcces}, {a, "five", wire.OK}, {b, "five", wire.ErrAcces}} {
		if st, _ := c.read(c.find(row.dir, row.name)); st != row.want {
			t.Errorf("%s: status %d, want %d", row.name, st, row.want)
		}
	}
}
