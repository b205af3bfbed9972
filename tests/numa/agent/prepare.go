package main

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"sluice/tests/numa"
)

const cgroupRoot = "/sys/fs/cgroup"

// prepare makes a machine of what the kernel has left: file systems, modules, the
// network and the disk.
func prepare() error {
	for _, m := range []struct{ kind, dir string }{
		{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"tmpfs", "/run"}, {"tmpfs", "/tmp"}, {"cgroup2", cgroupRoot},
	} {
		if err := mount(m.kind, m.kind, m.dir, 0); err != nil {
			return err
		}
	}
	if err := os.WriteFile(cgroupRoot+"/cgroup.subtree_control", []byte("+cpuset"), 0); err != nil {
		return err
	}
	if err := loadModules("/modules"); err != nil {
		return err
	}
	for name, addr := range map[string]string{"lo": "127.0.0.1", "eth0": numa.GuestIP} {
		if err := linkUp(name, netip.MustParseAddr(addr)); err != nil {
			return fmt.Errorf("interface %s: %w", name, err)
		}
	}
	const disk = "/dev/vda"
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if _, err := os.Stat(disk); err == nil || time.Now().After(deadline) {
			return mount(disk, "ext4", numa.DataDir, unix.MS_RDONLY)
		}
	}
}

func mount(source, kind, dir string, flags uintptr) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(source, dir, kind, flags, ""); err != nil {
		return fmt.Errorf("mount %s: %w", dir, err)
	}
	return nil
}

// loadModules loads what is in a directory, in the order of the names.
func loadModules(dir string) error {
	names, err := filepath.Glob(dir + "/*.ko")
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		err = unix.FinitModule(int(f.Fd()), "", 0)
		f.Close()
		if err != nil {
			return fmt.Errorf("module %s: %w", name, err)
		}
	}
	return nil
}

// linkUp gives an interface an address and starts it (netdevice(7)).
func linkUp(name string, addr netip.Addr) error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	r, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	ip := addr.As4()
	if err := r.SetInet4Addr(ip[:]); err != nil {
		return err
	}
	if err := unix.IoctlIfreq(s, unix.SIOCSIFADDR, r); err != nil {
		return err
	}
	r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, r)
}
