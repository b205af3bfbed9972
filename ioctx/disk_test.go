package ioctx

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// sysTree makes a tree like /sys with the files and links given.
func sysTree(t *testing.T, files, links map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range links {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, path); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestFindDisk(t *testing.T) {
	sys := sysTree(t, map[string]string{
		"devices/pci0/block/sda/dev":                      "8:0",
		"devices/pci0/block/sda/queue/max_sectors_kb":     "1280",
		"devices/pci0/block/sda/queue/read_ahead_kb":      "128",
		"devices/pci0/block/sda/sda1/dev":                 "8:1",
		"devices/pci0/block/sda/sda1/partition":           "1",
		"devices/virtual/block/dm-0/dev":                  "253:0",
		"devices/virtual/block/dm-0/queue/max_sectors_kb": "512",
		"devices/virtual/block/dm-0/queue/read_ahead_kb":  "8192",
		"class/bdi/0:42/read_ahead_kb":                    "4096",
		"class/bdi/0:43/read_ahead_kb":                    "rubbish",
	}, map[string]string{
		"dev/block/8:0":   "../../devices/pci0/block/sda",
		"dev/block/8:1":   "../../devices/pci0/block/sda/sda1",
		"dev/block/253:0": "../../devices/virtual/block/dm-0",
	})
	for _, c := range []struct {
		major, minor uint32
		want         disk
	}{
		{8, 0, disk{unix.Mkdev(8, 0), "sda", mib}},
		{8, 1, disk{unix.Mkdev(8, 0), "sda", mib}}, // one head for all partitions
		{253, 0, disk{unix.Mkdev(253, 0), "dm-0", 2 * mib}},
		{0, 42, disk{unix.Mkdev(0, 42), "0:42", 2 * mib}},
		{0, 43, disk{unix.Mkdev(0, 43), "0:43", 128 * kib}},
		{9, 9, disk{unix.Mkdev(9, 9), "9:9", 128 * kib}},
	} {
		if got := findDisk(sys, unix.Mkdev(c.major, c.minor)); got != c.want {
			t.Errorf("%d:%d: %+v, want %+v", c.major, c.minor, got, c.want)
		}
	}
}
