#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# ffmem.sh - kmod's ffmem.ko in a VM with Debian's kernel: sparse, its self-test, FT_LOADS (1000) loads, and the
# kernel's log without a complaint. With FT_KERNEL and FT_KDIR on that kernel, see kmod-debug.
# timeout: 600
. "$(dirname "$0")/kmod.sh"
command -v mkfs.ext4 >/dev/null || skip "no mkfs.ext4 (make deps)"

# shellcheck disable=SC2119 # make needs no more
kmod_build
mkdir "$TMP/out"
cp "$TMP/kmod/ffmem.ko" "$TMP/kmod/build/ffmem_test" "$TMP/out/"
truncate -s 64M "$TMP/out/disk" && mkfs.ext4 -q -b 4096 "$TMP/out/disk" || exit 1

cat >"$TMP/script" <<'SCRIPT'
# Memory as disks: one to swap to, one with a file system that must know of each write.
modprobe -qa zram ext4
cat /sys/class/zram-control/hot_add >/dev/null
echo 512M >/sys/block/zram0/disksize
mkswap /dev/zram0 >/dev/null && swapon /dev/zram0 || exit 1
mkdir /tmp/ext4
if [ "$(cat /sys/block/zram1/queue/logical_block_size)" = 4096 ]; then
	echo 64M >/sys/block/zram1/disksize
	cat disk >/dev/zram1 && mount /dev/zram1 /tmp/ext4 || exit 1
else # which is a page
	modprobe -q loop
	cp disk /tmp/disk && mount -o loop /tmp/disk /tmp/ext4 || exit 1
fi
export FT_DISK=/tmp/ext4/file
mount -t debugfs debugfs /sys/kernel/debug
insmod ./ffmem.ko || exit 1
./ffmem_test || exit 1
rmmod ffmem || exit 1
[ ! -e /proc/lockdep ] || export FT_LOADS=100
./ffmem_test load ./ffmem.ko || exit 1
leaks=/sys/kernel/debug/kmemleak
if [ -e $leaks ]; then
	# An object counts as leaked once it is 5 s old and was missed by two scans.
	sleep 6
	echo scan >$leaks
	echo scan >$leaks
	echo "kmemleak: $(grep -c ^unreferenced $leaks) leaks"
	! grep -q ffmem $leaks || { cat $leaks; exit 1; }
fi
SCRIPT
kmod_run "$TMP/out" "${FT_LIMIT:-500}" "$TMP/script"
