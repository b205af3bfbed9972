package exports

import (
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// privateEtc gives the tests an /etc of their own to write to, once.
var privateEtc = sync.OnceValue(func() error {
	upper, work := filepath.Join(scratch, "etc"), filepath.Join(scratch, "etc.work")
	for _, d := range []string{upper, work} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return err
		}
	}
	return syscall.Mount("etc", "/etc", "overlay", 0, "lowerdir=/etc,upperdir="+upper+",workdir="+work)
})

const hosts = `127.0.0.1 localhost
10.77.1.1   one.lab.test
10.77.1.2   two.lab.test two
10.77.1.3   THREE.Lab.Test
10.77.1.4   four.deep.lab.test
10.77.5.5   five.group.test
2001:db8:1::1 six.lab.test
`

const netgroup = `trusted (five.group.test,,) (10.77.5.6,,) inner
inner (,,) (-,,) (2001:db8:5::7,,)
`

// nameService writes the files that names come from, for servers started later.
// Nobody answers DNS, at once.
func nameService(t *testing.T) {
	t.Helper()
	must(t, privateEtc())
	for name, text := range map[string]string{
		"hosts": hosts, "netgroup": netgroup, "nsswitch.conf": "hosts: files dns\nnetgroup: files\n",
		"resolv.conf": "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n",
	} {
		must(t, os.WriteFile("/etc/"+name, []byte(text), 0o644))
	}
}
