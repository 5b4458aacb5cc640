#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# kernel-log.sh - a VM test fails if the kernel complains, although its script succeeds. A module calls WARN(), and reads through
# a null pointer when it is loaded with oops=1. A VM in which nothing of that happens must pass.
#
# timeout: 600
if [[ ! -v FT_IN_VM ]]; then
	. "$(dirname "$0")/kmod.sh"
	[[ -n $KDIR ]] || skip "builds its module for Debian's kernel of this release only"
	mkdir "$TMP/out" "$TMP/complain"
	cat >"$TMP/complain/complain.c" <<-'C'
	#include <linux/module.h>

	static bool oops;
	module_param(oops, bool, 0);

	static int __init complain(void)
	{
		if (oops)
			return READ_ONCE(*(int *)NULL);
		WARN(1, "kernel-log.sh");
		return -ENODEV;
	}
	module_init(complain);
	MODULE_LICENSE("GPL");
	C
	echo 'obj-m := complain.o' >"$TMP/complain/Makefile"
	make -s -C "$KDIR" M="$TMP/complain" modules >"$TMP/make.log" 2>&1 || {
		cat "$TMP/make.log"
		exit 1
	}
	cp "$TMP/complain/complain.ko" "$TMP/out/"

	# fails LINE-PATTERN ARG...: does the VM test fail, and does it print the kernel's line?
	fails() {
		if vm_checked "$TMP/out" 60 "$0" "${@:2}" >"$TMP/log" || ! grep -q "$1" "$TMP/log"; then
			cat "$TMP/log"
			echo "FAIL: a VM test passes although the kernel says '$1'"
			status=1
		fi
		grep -q '^the script has ended' "$TMP/log" || {
			echo "FAIL: the VM has not run the script"
			status=1
		}
	}
	status=0
	fails '^\[.*WARNING: CPU: .*complain' warn
	fails '^\[.*BUG: kernel NULL pointer dereference' oops
	vm_checked "$TMP/out" 60 "$0" nothing || status=1
	exit $status
fi

case $1 in
warn) ! insmod complain.ko ;;
oops) ! insmod complain.ko oops=1 ;;
nothing) true ;;
esac || exit 1
echo "the script has ended"
