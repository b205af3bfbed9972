package compare

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"sluice/nfsd/bench/client"
)

// GaneshaName is the peer that ratios refer to.
const GaneshaName = "ganesha"

// GaneshaConfig is a configuration file that serves a directory at a port for NFS
// and one for MOUNT. The directory's name must not hold quotes or backslashes.
func GaneshaConfig(dir string, port, mount uint16) []byte {
	return fmt.Appendf(nil, ganeshaConfig, port, mount, dir)
}

// ganeshaConfig is for the service that Sluice gives: version 3, read-only, root
// being root, 1 MiB reads; all else is as the package has it.
const ganeshaConfig = `
NFS_CORE_PARAM {
	Protocols = 3; NFS_Port = %d; MNT_Port = %d;
	Enable_NLM = false; Enable_RQUOTA = false;
}
EXPORT {
	Export_Id = 1; Path = "%s"; Pseudo = /x;
	Access_Type = RO; Squash = No_root_squash; SecType = sys;
	Protocols = 3; Transports = TCP; MaxRead = 1048576; PrefRead = 1048576;
	FSAL { Name = VFS; }
}
LOG { Default_Log_Level = FATAL; }
`

// Ganesha is NFS-Ganesha as Debian packages it. It does not start without an
// rpcbind, which is started too if none answers.
func Ganesha() Peer {
	return Peer{Name: GaneshaName, Start: func(ctx context.Context, file, dir string) (*Running, error) {
		program, err := lookPath("ganesha.nfsd")
		if err != nil {
			return nil, fmt.Errorf("%w (Debian packages nfs-ganesha, nfs-ganesha-vfs)", err)
		}
		if os.Geteuid() != 0 {
			return nil, errors.New("NFS-Ganesha needs root")
		}
		r := new(Running)
		if err := startRpcbind(r, dir); err != nil {
			r.Stop()
			return nil, err
		}
		if err := r.startGanesha(program, file, dir); err != nil {
			r.Stop()
			return nil, err
		}
		return r, r.wait(ctx, startLimit)
	}}
}

func (r *Running) startGanesha(program, file, dir string) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	mount, err := freePort()
	if err != nil {
		return err
	}
	served := filepath.Dir(file)
	if strings.ContainsAny(served, "\"\\\n") {
		return errors.New("its configuration cannot hold the directory's name")
	}
	config := filepath.Join(dir, "ganesha.conf")
	if err := os.WriteFile(config, GaneshaConfig(served, port, mount), 0o644); err != nil {
		return err
	}
	if err := os.MkdirAll("/run/ganesha", 0o755); err != nil {
		return err
	}
	log := filepath.Join(dir, "ganesha.log")
	p, err := start(exec.Command(program, "-F", "-f", config, "-L", log, "-p", filepath.Join(dir, "ganesha.pid")), dir)
	if err != nil {
		return err
	}
	r.procs = append(r.procs, p)
	version, _ := exec.Command(program, "-v").Output()
	r.Version, _, _ = strings.Cut(strings.TrimSpace(string(version)), "\n")
	r.Target = client.Target{Host: "127.0.0.1", Port: port, MountPort: mount, Path: file}
	return nil
}

func startRpcbind(r *Running, dir string) error {
	const addr = "127.0.0.1:111"
	answers := func() bool {
		c, err := net.DialTimeout("tcp", addr, time.Second)
		if err == nil {
			c.Close()
		}
		return err == nil
	}
	if answers() {
		return nil
	}
	program, err := lookPath("rpcbind")
	if err != nil {
		return err
	}
	if err := os.MkdirAll("/run/rpcbind", 0o755); err != nil {
		return err
	}
	p, err := start(exec.Command(program, "-f"), dir)
	if err != nil {
		return err
	}
	r.procs = append(r.procs, p)
	for range 50 {
		if answers() {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return p.explain(errors.New("rpcbind does not answer at " + addr))
}
