#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# kmod's ffmem.ko, made by the cross compiler, on a kernel of arm64's own, in a VM: its self-test, a hundred loads, and the
# kernel's log without a complaint.
#
# timeout: 1200
ARCH=arm64
. "$(dirname "$0")/../vm/common.sh"
command -v mkfs.ext4 >/dev/null || skip "no mkfs.ext4 (make deps)"
headers=$(arm64_headers bookworm "$(cat "$KERNEL/release")") || skip "no headers of that kernel can be had from apt"

cp -r "$TREE/kmod" "$TMP/kmod"
{
	make -s -C "$TMP/kmod" clean &&
		make -s -C "$TMP/kmod" KDIR="$headers" ARCH=arm64 CROSS_COMPILE=aarch64-linux-gnu- modules &&
		make -s -C "$TMP/kmod" CC=aarch64-linux-gnu-gcc selftest
} >"$TMP/make.log" 2>&1 || {
	cat "$TMP/make.log"
	exit 1
}
mkdir "$TMP/out"
cp "$TMP/kmod/ffmem.ko" "$TMP/kmod/build/ffmem_test" "$TMP/out/"
truncate -s 64M "$TMP/out/disk" && mkfs.ext4 -q "$TMP/out/disk" || exit 1

cat >"$TMP/script" <<'SCRIPT'
# Memory as disks: one to swap to, one with a file system that must know of each write.
modprobe -qa zram loop ext4
cat /sys/class/zram-control/hot_add >/dev/null
echo 512M >/sys/block/zram0/disksize
mkswap /dev/zram0 >/dev/null && swapon /dev/zram0 || exit 1
cp disk /tmp/disk
mkdir /tmp/ext4 && mount -o loop /tmp/disk /tmp/ext4 || exit 1
export FT_DISK=/tmp/ext4/file FT_LOADS=100
mount -t debugfs debugfs /sys/kernel/debug
insmod ./ffmem.ko && ./ffmem_test && rmmod ffmem && ./ffmem_test load ./ffmem.ko
SCRIPT
vm_run "$KERNEL" "$TMP/out" "${FT_LIMIT:-1100}" "$TMP/script"
status=$?
! grep -aE 'BUG|WARNING|Oops|Call Trace|INFO: task|Bad page|Kernel panic' "$TMP/out/console" || status=1
((status == 0)) || cat "$TMP/out/console"
exit $status
