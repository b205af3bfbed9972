package peers

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sluice/tests/guest"
)

const (
	ganeshaPort      = "22049"
	ganeshaMountPort = "22050"
)

// ganeshaConfig is for the same service as exportLine's: version 3, read-only,
// root being root. Attributes are not cached, so that both servers tell of
// the same moment.
const ganeshaConfig = `
NFS_CORE_PARAM {
	Protocols = 3; NFS_Port = %s; MNT_Port = %s;
	Enable_NLM = false; Enable_RQUOTA = false;
}
MDCACHE { Dir_Chunk = 0; }
EXPORT {
	Export_Id = 1; Path = %s; Pseudo = /x;
	Access_Type = RO; Squash = No_root_squash; SecType = sys;
	Protocols = 3; Transports = TCP; MaxRead = 1048576; PrefRead = 1048576;
	Attr_Expiration_Time = 0;
	FSAL { Name = VFS; }
}
LOG { Default_Log_Level = EVENT; }
`

// startGanesha serves dir with NFS-Ganesha, which needs an rpcbind.
func startGanesha(t *testing.T, ns *guest.Namespace, dir string) {
	t.Helper()
	needTools(t, "ganesha.nfsd")
	startRpcbind(t, ns)
	tmp := t.TempDir()
	config, log := filepath.Join(tmp, "conf"), filepath.Join(tmp, "log")
	must(t, os.WriteFile(config, fmt.Appendf(nil, ganeshaConfig, ganeshaPort, ganeshaMountPort, dir), 0o644))
	must(t, ns.Sh("mkdir -p /run/ganesha"))
	p, err := ns.Start(nil, "ganesha.nfsd", "-F", "-f", config, "-L", log, "-p", filepath.Join(tmp, "pid"))
	must(t, err)
	t.Cleanup(p.Kill)
	for range 200 {
		if c, err := ns.Dial("tcp", "127.0.0.1:"+ganeshaMountPort); err == nil {
			c.Close()
			return
		}
		select {
		case <-p.Done():
			text, _ := os.ReadFile(log)
			t.Fatalf("NFS-Ganesha ended:\n%s\n%s", p.Log, text)
		case <-time.After(100 * time.Millisecond):
		}
	}
	t.Fatalf("NFS-Ganesha does not listen:\n%s", readFile(t, log))
}
