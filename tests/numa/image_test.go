package numa

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// modules are the kernel's, each behind those it needs: a network card and a disk
// of virtio, and ext4.
var modules = []string{
	"drivers/virtio/virtio_ring", "drivers/virtio/virtio", "drivers/virtio/virtio_pci_legacy_dev",
	"drivers/virtio/virtio_pci_modern_dev", "drivers/virtio/virtio_pci", "net/core/failover", "drivers/net/net_failover",
	"drivers/net/virtio_net", "drivers/block/virtio_blk", "lib/crc16", "crypto/crc32c_generic", "fs/mbcache", "fs/jbd2/jbd2", "fs/ext4/ext4",
}

// dataBytes is the length of the file that is read.
const dataBytes = 12 << 20

// image is what the guest boots from.
type image struct {
	dir, kernel, initrd, disk string
	sum                       string // of the file on the disk, SHA-256
}

// errUnavailable is wrapped by errors that say that this machine cannot boot the
// guest.
var errUnavailable = errors.New("no guest with NUMA nodes here")

// available says what is missing, or nil.
func available() error {
	for _, p := range []string{"qemu-system-x86_64", "cpio", "mkfs.ext4", "apt-get", "apt-cache", "dpkg", "tar"} {
		if _, err := exec.LookPath(p); err != nil {
			return fmt.Errorf("%w: %w; sh tests/setup.sh numa installs it", errUnavailable, err)
		}
	}
	return nil
}

// makeImage builds all that the guest needs.
func makeImage(t *testing.T, list []Scenario) (*image, error) {
	if err := available(); err != nil {
		return nil, err
	}
	img := &image{dir: t.TempDir()}
	root := filepath.Join(img.dir, "root")
	for _, d := range []string{"bin", "modules", "proc", "sys", "dev", "run", "tmp"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			return nil, err
		}
	}
	if err := img.fetchKernel(root); err != nil {
		return nil, err
	}
	for pkg, file := range map[string]string{"sluice/nfsd/cmd/sluice": "bin/sluice", "sluice/tests/numa/agent": "init"} {
		build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(root, file), pkg)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if err := command(build); err != nil {
			return nil, err
		}
	}
	b, err := json.Marshal(list)
	if err == nil {
		err = os.WriteFile(filepath.Join(root, Scenarios), b, 0o644)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(root, Exports), []byte(DataDir+" *(ro,insecure)\n"), 0o644)
	}
	if err != nil {
		return nil, err
	}
	img.initrd = filepath.Join(img.dir, "initrd")
	pack := exec.Command("sh", "-c", `find . | cpio -o -H newc --quiet >"$0"`, img.initrd)
	pack.Dir = root
	return img, errors.Join(command(pack), img.makeDisk())
}

// download fetches the package of Debian's kernel and returns the kernel's version.
func (img *image) download() (version string, err error) {
	out, err := exec.Command("apt-cache", "show", "linux-image-amd64").Output()
	if err != nil {
		return "", fmt.Errorf("apt-cache show linux-image-amd64: %w", err)
	}
	_, rest, _ := strings.Cut(string(out), "\nDepends: linux-image-")
	version, _, ok := strings.Cut(rest, " ")
	if !ok {
		return "", fmt.Errorf("linux-image-amd64 depends on no kernel:\n%s", out)
	}
	get := exec.Command("apt-get", "download", "linux-image-"+version)
	get.Dir = img.dir
	return version, command(get)
}

// fetchKernel takes Debian's kernel and its modules out of their package, without
// installing it. Modules go to root, numbered.
func (img *image) fetchKernel(root string) error {
	version, err := img.download()
	if err != nil { // the package lists may be missing, or old
		if update := command(exec.Command("apt-get", "update")); update != nil {
			return fmt.Errorf("%w: %w; %w", errUnavailable, err, update)
		}
		version, err = img.download()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errUnavailable, err)
	}
	names := []string{"./boot/vmlinuz-" + version}
	for _, m := range modules {
		names = append(names, "./lib/modules/"+version+"/kernel/"+m+".ko")
	}
	unpack := exec.Command("sh", "-c", `dpkg --fsys-tarfile linux-image-*.deb | tar -x "$@"`, "unpack")
	unpack.Args = append(unpack.Args, names...)
	unpack.Dir = img.dir
	if err := command(unpack); err != nil {
		return err
	}
	img.kernel = filepath.Join(img.dir, names[0])
	for i, name := range names[1:] {
		if err := os.Rename(filepath.Join(img.dir, name), filepath.Join(root, "modules", fmt.Sprintf("%02d-%s", i, path.Base(name)))); err != nil {
			return err
		}
	}
	return nil
}

// makeDisk makes the file system that is served.
func (img *image) makeDisk() error {
	data := make([]byte, dataBytes)
	_, _ = rand.Read(data) // never fails
	img.sum = fmt.Sprintf("%x", sha256.Sum256(data))
	files := filepath.Join(img.dir, "files")
	if err := os.Mkdir(files, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(files, DataFile), data, 0o644); err != nil {
		return err
	}
	img.disk = filepath.Join(img.dir, "disk")
	return command(exec.Command("mkfs.ext4", "-q", "-O", "^metadata_csum", "-d", files, img.disk, "48M"))
}

// command runs a command whose output is of interest if it fails.
func command(cmd *exec.Cmd) error {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, &out)
	}
	return nil
}
