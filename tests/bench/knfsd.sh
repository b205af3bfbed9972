#!/bin/sh
# knfsd.sh fetch DIR: puts Debian's kernel and this script into DIR. Needs apt.
# knfsd.sh run DIR SLUICE: boots that kernel under emulation and has `sluice bench`
# measure the kernel's own NFS server and Sluice in it, in turn. Prints a line
# "RESULT peer round JSON" for each measurement. About four minutes.
set -eu

dir=$2
case $1 in
fetch)
	mkdir -p "$dir"
	cp "$0" "$dir/knfsd.sh"
	[ ! -d "$dir/kernel/boot" ] || exit 0
	version=$(apt-cache show linux-image-amd64 | sed -n 's/^Depends: linux-image-\([^ ]*\).*/\1/p' | head -n 1)
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	(cd "$work" && apt-get -q download "linux-image-$version" >/dev/null)
	dpkg -x "$work"/linux-image-*.deb "$dir/kernel"
	exit 0
	;;
run) sluice=$3 ;;
*)
	echo "usage: knfsd.sh fetch DIR | run DIR SLUICE" >&2
	exit 2
	;;
esac

PATH=$PATH:/usr/sbin:/sbin
work=$(mktemp -d)
qemu=
# Whatever ends the script ends the machine too.
trap '[ -z "$qemu" ] || kill "$qemu" 2>/dev/null || true; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
root=$work/root
version=$(basename "$dir"/kernel/lib/modules/*)
modules=lib/modules/$version
mkdir -p "$root/bin" "$root/proc" "$root/sys" "$root/dev" "$root/run" "$root/tmp" "$root/etc" "$root/var/lib/nfs" \
	"$root/srv/x" "$root/$modules" "$root/lib/x86_64-linux-gnu"

# program PATH NAME: copies a program and the libraries it needs.
program() {
	mkdir -p "$root/$(dirname "$2")"
	cp -L "$1" "$root/$2"
	for lib in $({ ldd "$1" 2>/dev/null || true; } | grep -oE '/[^ ]+'); do
		mkdir -p "$root/$(dirname "$lib")"
		cp -L "$lib" "$root/$lib"
	done
}
program /bin/busybox bin/busybox
program "$sluice" bin/sluice
for p in rpcbind rpc.mountd rpc.nfsd exportfs modprobe; do
	path=$(command -v "$p")
	program "$path" "$path"
done
cp -L /lib/x86_64-linux-gnu/libnss_files.so.2 "$root/lib/x86_64-linux-gnu/"
for f in passwd group rpc services protocols netconfig nsswitch.conf; do
	cp "/etc/$f" "$root/etc/"
done
cp "$dir/kernel/$modules"/modules.* "$root/$modules/"
for m in nfsd nfsv3 nfs sunrpc lockd grace nfs_acl auth_rpcgss fscache netfs crc32c_generic libcrc32c; do
	(cd "$dir/kernel/$modules" && find kernel -name "$m.ko*" | cpio -pdm "$root/$modules" 2>/dev/null)
done
depmod -b "$root" "$version"

cat >"$root/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin:/sbin:/usr/bin:/usr/sbin
dmesg -n 1 # the console is for results
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /tmp
ifconfig lo 127.0.0.1 up
mkdir -p /run/rpcbind /var/lib/nfs/v4recovery
mount -t tmpfs -o size=600m tmpfs /srv/x
dd if=/dev/zero of=/srv/x/f bs=1M count=256 2>/dev/null
modprobe nfsd
mount -t nfsd nfsd /proc/fs/nfsd
echo '/srv/x *(ro,insecure,no_subtree_check,fsid=7,no_root_squash)' >/etc/exports
touch /var/lib/nfs/etab /var/lib/nfs/rmtab
rpcbind
sleep 1
exportfs -ra
echo 1048576 >/proc/fs/nfsd/max_block_size

# one PEER ROUND URL COMMAND…: one measurement.
one() {
	peer=$1 round=$2 url=$3
	shift 3
	sluice bench "$@" --json "$url" 2>>/tmp/errors | sed "s/^/RESULT $peer $round /"
}
all() {
	for size in 4K 64K 1M; do
		one "$1" "$2" "$3" dd --time 2s --conns 4 --rsize $size
	done
	one "$1" "$2" "$3" meta --time 2s --conns 4 --op getattr
}
for round in 1 2 3; do
	rpc.nfsd -N 4 8
	rpc.mountd -p 20048
	sleep 1
	all knfsd $round 'nfs://127.0.0.1:2049/srv/x/f?mountport=20048'
	rpc.nfsd 0
	killall rpc.mountd
	sluice serve --exports /etc/exports --listen 127.0.0.1:3049 --state-dir /tmp/state --rpcbind off >/tmp/log 2>&1 &
	sleep 3
	all sluice-auto $round nfs://127.0.0.1:3049/srv/x/f
	kill $!
	wait $!
done
sed 's/^/ERROR /' /tmp/errors
poweroff -f
INIT
chmod +x "$root/init"
(cd "$root" && find . | cpio -o -H newc 2>/dev/null | gzip -1 >"$work/initrd")

qemu-system-x86_64 -M q35 -accel tcg,thread=multi -cpu max -smp 2 -m 3G \
	-kernel "$dir"/kernel/boot/vmlinuz-* -initrd "$work/initrd" \
	-append "console=ttyS0 panic=-1 quiet mitigations=off" -nographic -no-reboot </dev/null >"$work/console" 2>&1 &
qemu=$!
wait "$qemu" || true
qemu=
tr -d '\r' <"$work/console" >"$work/lines"
grep '^ERROR' "$work/lines" >&2 || true
grep -o 'RESULT .*' "$work/lines" || { tail -n 5 "$work/console" >&2; exit 1; }
