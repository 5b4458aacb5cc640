#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# ffmem.sh - kmod's ffmem.ko in a VM with Debian's kernel. Sparse checks the module. Its self-test runs, and then FT_LOADS
# (1000) loads and unloads. For a kernel that looks for mistakes, with FT_KERNEL and FT_KDIR, see kmod-debug.
#
# all: vm
# night: vm
# timeout: 1200
if [[ ! -v FT_IN_VM ]]; then
	. "$(dirname "$0")/rapidio.sh" # for the build that tests of ffrio use, too
	command -v mkfs.ext4 >/dev/null || skip "no mkfs.ext4 (make deps)"
	rapidio_build
	mkdir "$TMP/out"
	cp "$TMP/kmod/ffmem.ko" "$TMP/kmod/build/ffmem_test" "$TMP/out/"
	truncate -s 64M "$TMP/out/disk" && mkfs.ext4 -q -b 4096 "$TMP/out/disk" || exit 1
	vm_checked "$TMP/out" "${FT_LIMIT:-1100}" "$0"
	exit
fi

# Memory as disks: one to swap to, and one with a file system that must be told of each write.
modprobe -qa zram ext4
cat /sys/class/zram-control/hot_add >/dev/null
echo 512M >/sys/block/zram0/disksize
mkswap /dev/zram0 >/dev/null && swapon /dev/zram0 || exit 1
mkdir /tmp/ext4
if [[ $(cat /sys/block/zram1/queue/logical_block_size) == 4096 ]]; then
	echo 64M >/sys/block/zram1/disksize
	cat disk >/dev/zram1 && mount /dev/zram1 /tmp/ext4 || exit 1
else # zram's blocks have the size of a page, which ext4's blocks of 4 KB are smaller than
	modprobe -q loop
	cp disk /tmp/disk && mount -o loop /tmp/disk /tmp/ext4 || exit 1
fi
export FT_DISK=/tmp/ext4/file
mount -t debugfs debugfs /sys/kernel/debug
insmod ./ffmem.ko || exit 1
./ffmem_test || exit 1
rmmod ffmem || exit 1
[[ ! -e /proc/lockdep ]] || export FT_LOADS=100
./ffmem_test load ./ffmem.ko || exit 1
leaks=/sys/kernel/debug/kmemleak
if [[ -e $leaks ]]; then
	# An object counts as leaked once it is 5 s old and was missed by two scans.
	sleep 6
	echo scan >$leaks
	echo scan >$leaks
	echo "kmemleak: $(grep -c ^unreferenced $leaks) leaks"
	! grep -q ffmem $leaks || {
		cat $leaks
		exit 1
	}
fi
