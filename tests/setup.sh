#!/bin/sh
# setup.sh [demo|test|bench|knfsd|numa|dd-test]…: installs the Debian packages that the demo,
# the tests, the benchmark, the kernel's server in it, the test of NUMA placement, or those of cold
# reads need (without arguments: those of demo and test). Does nothing where they are there.
# Needs root for what is missing. Starts no service.
set -eu

say() { echo "setup: $*"; }
fail() { echo "setup: FAILED: $*" >&2; exit 1; }

# The demo: a Linux guest as NFS client, and libnfs as the second client.
demo="user-mode-linux kmod iproute2 util-linux nfs-common libnfs-utils"
# The tests: also another server to compare with, the real exportfs, rpcbind, a
# dissector, ACLs, file systems to mount, and a compiler for the kernel's headers.
tests="$demo nfs-ganesha nfs-ganesha-vfs nfs-kernel-server rpcbind tshark acl e2fsprogs mount libc-bin gcc libc6-dev linux-libc-dev"
# The benchmark: NFS-Ganesha, and the Linux guest. For the kernel's server in it: an
# emulated machine and what goes into it.
bench="user-mode-linux kmod iproute2 util-linux nfs-common nfs-ganesha nfs-ganesha-vfs rpcbind"
knfsd="qemu-system-x86 busybox-static nfs-kernel-server rpcbind cpio kmod"
# The test of NUMA placement: an emulated machine, and what its disk is made with.
numa="qemu-system-x86 cpio e2fsprogs"
# The dd test and the benchmark of cold reads: the guest, a file system for the
# modelled disk, and fio to compare with.
ddtest="user-mode-linux kmod iproute2 util-linux nfs-common e2fsprogs mount fio"

want=
[ $# -gt 0 ] || set -- demo test
for set in "$@"; do
	case $set in
	demo) want="$want $demo" ;;
	test) want="$want $tests" ;;
	bench) want="$want $bench" ;;
	knfsd) want="$want $knfsd" ;;
	numa) want="$want $numa" ;;
	dd-test) want="$want $ddtest" ;;
	*) fail "unknown set '$set'; the sets are demo, test, bench, knfsd, numa and dd-test" ;;
	esac
done

command -v dpkg-query >/dev/null && command -v apt-get >/dev/null ||
	fail "this script knows Debian and its apt-get only; install by hand:$want"

missing=
for p in $(printf '%s\n' $want | sort -u); do
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null)" = installed ] || missing="$missing $p"
done
if [ -z "$missing" ]; then
	say "everything for '$*' is installed"
	exit 0
fi
[ "$(id -u)" = 0 ] || fail "run as root to install:$missing"

log=$(mktemp)
policy=/usr/sbin/policy-rc.d
made_policy=
cleanup() {
	rm -f "$log"
	[ -z "$made_policy" ] || rm -f "$policy"
}
trap cleanup EXIT
trap 'exit 1' INT TERM
# run TEXT COMMAND…: one line for the step, the command's output if it fails.
run() {
	say "$1"
	shift
	"$@" >"$log" 2>&1 </dev/null || { tail -n 20 "$log" >&2; fail "$*"; }
}

# Packages of servers start them once installed; the tests start their own.
if [ ! -e "$policy" ]; then
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod 755 "$policy"
	made_policy=yes
fi

export DEBIAN_FRONTEND=noninteractive
run "reading the package lists" apt-get update
run "installing$missing" apt-get install -y --no-install-recommends $missing
say "done"
