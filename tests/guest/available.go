package guest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// ErrUnavailable is wrapped by errors that say this machine cannot run
// namespaces or guests. Tests skip on it.
var ErrUnavailable = errors.New("not available here")

// modulesDir is where the user-mode-linux package puts its kernel modules,
// one directory per kernel version.
const modulesDir = "/usr/lib/uml/modules"

// NamespaceAvailable reports why no Namespace can be made, or nil.
func NamespaceAvailable() error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("%w: needs root", ErrUnavailable)
	}
	return need("nsenter", "ip")
}

// Available reports why no Guest can be booted, or nil.
func Available() error {
	if err := NamespaceAvailable(); err != nil {
		return err
	}
	if err := need("linux.uml", "unshare", "modprobe", "stty", "mount.nfs"); err != nil {
		return err
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		return fmt.Errorf("%w: %v", ErrUnavailable, err)
	}
	if m, _ := filepath.Glob(modulesDir + "/*/modules.dep"); len(m) == 0 {
		return fmt.Errorf("%w: no kernel modules below %s", ErrUnavailable, modulesDir)
	}
	return nil
}

func need(programs ...string) error {
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			return fmt.Errorf("%w: %v", ErrUnavailable, err)
		}
	}
	return nil
}
