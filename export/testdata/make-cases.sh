#!/bin/sh
# Regenerates the cases: runs the real exportfs (Debian package
# nfs-kernel-server) on every case in DIR, by default the cases beside this
# script, and writes what it did to NAME.want beside NAME.exports:
#
#	make-cases.sh [DIR]
#
#	exit N                    its exit status
#	msg TEXT                  each line it said
#	etab LINE                 each line of the resulting table, sorted
#	match ADDR PATH ANONUID   what it grants that client (NAME.clients)
#
# NAME.d, where present, is the case's /etc/exports.d; DIR/etc, where present,
# holds files for /etc (hosts, netgroup, nsswitch.conf). NAME.clients has lines
# "ADDRESS PATH"; a case with one gives each entry its own anonuid, so that the
# answer names the entry.
#
# It all happens in a private mount namespace with a root of its own, so that
# nothing outside DIR changes. Needs root.
set -eu
if [ -z "${IN_NAMESPACE:-}" ]; then
	IN_NAMESPACE=1
	export IN_NAMESPACE
	exec unshare -m --propagation private "$0" "$@"
fi
dir=$(realpath "${1:-$(dirname "$0")/cases}")
work=$(mktemp -d)
trap 'umount -R -l "$work" && rmdir "$work"' EXIT
mount -t tmpfs none "$work"
root=$work/root
mkdir -p "$root/etc" "$root/var/lib/nfs" "$root/tmp" "$root/run" "$work/up" "$work/wk"
for d in bin sbin lib lib64; do
	if [ -L "/$d" ]; then cp -P "/$d" "$root/$d"; fi
done
for d in bin sbin lib lib64 usr proc dev; do
	if [ -d "/$d" ] && [ ! -L "/$d" ]; then
		mkdir "$root/$d"
		mount --bind "/$d" "$root/$d"
	fi
done
mount -t overlay none -o "lowerdir=/etc,upperdir=$work/up,workdir=$work/wk" "$root/etc"
if [ -d "$dir/etc" ]; then cp "$dir"/etc/* "$root/etc/"; fi
mkdir -p "$root/E/a/sub" "$root/E/b" "$root/E/c d" "$root/E/f" "$root/E/h#x" "$root/E/é"
: >"$root/E/file"
ln -s a "$root/E/ln"
etab=$root/var/lib/nfs/etab

# fresh NAME empties the state and puts the case in place.
fresh() {
	rm -rf "$root/etc/exports" "$root/etc/exports.d"
	: >"$etab"
	if [ -e "$dir/$1.exports" ]; then cp "$dir/$1.exports" "$root/etc/exports"; fi
	if [ -d "$dir/$1.d" ]; then cp -R "$dir/$1.d" "$root/etc/exports.d"; fi
}

for file in "$dir"/*.exports; do
	name=$(basename "$file" .exports)
	fresh "$name"
	status=0
	chroot "$root" exportfs -rav >"$work/out" 2>"$work/err" || status=$?
	{
		echo "exit $status"
		grep -a '^exportfs: ' "$work/err" | sed 's/^/msg /' || :
		LC_ALL=C sort "$etab" | sed 's/^/etab /'
		if [ -e "$dir/$name.clients" ]; then
			while read -r addr path; do
				fresh "$name"
				chroot "$root" exportfs -o ro "$addr:$path" >/dev/null 2>&1 || :
				anon=$(sed -n 's/.*anonuid=\([0-9-]*\).*/\1/p' "$etab")
				echo "match $addr $path ${anon:-none}"
			done <"$dir/$name.clients"
		fi
	} >"$dir/$name.want"
done
