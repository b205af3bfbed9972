package numa

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// boot runs the guest until it powers off and returns its reports. The card and
// the disk each hang on a PCI expander bridge, which is where qemu lets a device
// have a node.
func (img *image) boot(ctx context.Context, t *testing.T) ([]Report, error) {
	reports := filepath.Join(img.dir, "reports")
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", "-nodefaults", "-no-reboot", "-display", "none",
		"-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "4", "-m", "1536M",
		"-object", "memory-backend-ram,id=m0,size=768M", "-object", "memory-backend-ram,id=m1,size=768M",
		"-numa", "node,nodeid=0,cpus=0-1,memdev=m0", "-numa", "node,nodeid=1,cpus=2-3,memdev=m1",
		"-device", "pxb-pcie,id=bridge0,bus=pcie.0,bus_nr=32,numa_node=0", "-device", "pcie-root-port,id=port0,bus=bridge0,chassis=1",
		"-device", "pxb-pcie,id=bridge1,bus=pcie.0,bus_nr=64,numa_node=1", "-device", "pcie-root-port,id=port1,bus=bridge1,chassis=2",
		"-drive", "file="+img.disk+",format=raw,if=none,id=disk0,readonly=on", "-device", "virtio-blk-pci,bus=port0,drive=disk0",
		"-netdev", "user,id=net1,restrict=on", "-device", "virtio-net-pci,bus=port1,netdev=net1,romfile=",
		"-kernel", img.kernel, "-initrd", img.initrd, "-append", "console=ttyS0 panic=-1 quiet mitigations=off net.ifnames=0",
		"-serial", "stdio", "-serial", "file:"+reports)
	var console bytes.Buffer
	cmd.Stdout, cmd.Stderr = &console, &console
	err := cmd.Run()
	t.Logf("the guest's console:\n%s", console.Bytes())
	if err != nil || ctx.Err() != nil {
		return nil, fmt.Errorf("qemu: %w, %v", err, ctx.Err())
	}
	b, err := os.ReadFile(reports)
	if err != nil {
		return nil, err
	}
	var list []Report
	for d := json.NewDecoder(bytes.NewReader(b)); d.More(); {
		var r Report
		if err := d.Decode(&r); err != nil {
			return list, err
		}
		list = append(list, r)
	}
	return list, nil
}
