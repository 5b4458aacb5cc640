#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# views.sh - a router with ffmem.ko, in a VM with Debian's kernel. The router views programs' memory of all kinds, on-demand
# memory among them. The module can be unloaded when the router has gone. Of verbs_mr only those cases run here that reach
# memory; all of them run without the module (netns/verbs_mr), and `storm` of verbs_odp runs there with 200 rounds.
#
# timeout: 1200
if [[ ! -v FT_IN_VM ]]; then
	[[ -z ${FF_BRIEF-} ]] || VM_CPUS=1
	. "$(dirname "$0")/rapidio.sh" # for the build that tests of ffrio use, too
	rapidio_build
	vm_tree "$TMP/out"
	cp "$TMP/kmod/ffmem.ko" "$TMP/out/tree/"
	vm_checked "$TMP/out" 1100 "$0"
	exit
fi

# shellcheck source=tests/vm/inside.sh
. /out/tree/tests/vm/inside.sh

counter() { "$LAB" ffctl h0 -- --json stats h0c0 | grep -o "\"$1\": [0-9]*" | head -n 1 | grep -o '[0-9]*$'; }

# Runs a program of tests/system in a container. At least a part of the bytes that it moves must go by views.
viewed() { # PROGRAM [CASE...]
	local before after
	before=$(counter view_bytes)
	timeout 400 "$LAB" exec h0c0 -- "$TREE/build/tests/system/$1" "${@:2}" || return 1
	after=$(counter view_bytes)
	echo "$((after - before)) bytes by views, $(counter pvm_bytes) through the process so far"
	((after > before))
}

modprobe -a veth bridge
insmod "$TREE/ffmem.ko" || exit 1
export ODP_STORM=10
"$LAB" up --containers 2 || exit 1
grep -q "ffmem: clients' memory is viewed" "$FF_LAB/h0/ffr.log" || {
	cat "$FF_LAB/h0/ffr.log"
	exit 1
}
check odp viewed verbs_odp
check memory viewed verbs_memory
check mr viewed verbs_mr mr_iova mr_rereg mr_dead_key mr_large mr_dereg_under_load mr_unmapped
check busy bash -c '! rmmod ffmem 2>/dev/null'
grep -i 'warn\|err' "$FF_LAB/h0/ffr.log"
check lab-down "$LAB" down
check unload rmmod ffmem
exit "$failed"
