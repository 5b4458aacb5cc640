#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# kernel-log.sh - a VM test fails if the kernel complains, although its script succeeds. In one VM a module calls WARN(), and
# is loaded once more to read through a null pointer. Each complaint must be enough to fail a test. (That a VM without a
# complaint passes is shown by each other test of this folder.)
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

	status=0
	! vm_checked "$TMP/out" 60 "$0" >"$TMP/log" || { echo "FAIL: a VM test passes although the kernel complains"; status=1; }
	grep -q '^the script has ended' "$TMP/log" || { echo "FAIL: the VM has not run the script to its end"; status=1; }

	# complains LINE-PATTERN: does this part of the console, its input, have the line, and does it alone fail a test?
	complains() {
		cat >"$TMP/part"
		grep -aq "$1" "$TMP/part" && ! vm_log_clean "$TMP/part" >/dev/null && return
		echo "FAIL: this part of the kernel's log does not fail a test with '$1'"
		status=1
	}
	complains '^\[.*WARNING: CPU: .*complain' < <(sed '/kernel-log: oops/,$d' "$TMP/out/console")
	complains '^\[.*BUG: kernel NULL pointer dereference' < <(sed '1,/kernel-log: oops/d' "$TMP/out/console")
	((!status)) || cat "$TMP/log"
	exit $status
fi

! insmod complain.ko || exit 1
echo '<4>kernel-log: oops' >/dev/kmsg
! insmod complain.ko oops=1 || exit 1
echo "the script has ended"
