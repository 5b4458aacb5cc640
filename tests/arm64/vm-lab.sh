#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# vm-lab.sh - the router on a kernel for arm64, in a VM: Debian's programs for arm64 run between two containers of the lab and
# check, where they can, what arrives where. The programs of tests/system that need one container and nothing else run, too,
# but not raw_*, which attack for minutes. Arguments: only these of either. FT_PAGES=16k or 64k: a kernel with pages of that
# size.
#
# timeout: 1500
if [[ ! -v FT_IN_VM ]]; then
	ARCH=arm64
	(($# == 0)) || export FT_ONLY=$*
	. "$(dirname "$0")/../vm/common.sh"
	whole=()
	for t in "$TREE"/tests/system/*.c; do
		name=$(basename "$t" .c)
		[[ -e ${t%.c}.sh || $name == raw_* ]] || whole+=("$name")
	done
	vm_test "${FT_LIMIT:-1400}" "$0" "${whole[@]}"
	exit
fi

# shellcheck source=tests/vm/inside.sh
. /out/tree/tests/vm/inside.sh

modprobe -a veth bridge overlay
"$LAB" up --containers 2 || {
	cat "$FF_LAB/h0/ffr.log"
	exit 1
}
. "$TREE/tests/rig/shell/lab.sh"
. "$TREE/tests/rig/shell/cm.sh"
. "$TREE/tests/rig/shell/load.sh"
export PAIR_TIMEOUT=200
ip=$("$LAB" ip "$A")

# Runs the check if FT_ONLY names it, or if FT_ONLY is empty.
some() { # NAME CMD...
	[[ -n ${FT_ONLY-} && " $FT_ONLY " != *" $1 "* ]] || check "$@"
}

# A pair of programs with a port of its own, in a subshell, because pair() ends the shell when it fails.
between() { # PROGRAM ARGS...
	((++PORT))
	(pair "$A" "$B" "$@" && cat "$OUT/client")
}

by_cm() { # SERVER-COMMAND CLIENT-COMMAND
	(cm_pair "$1" "$2" && cat "$OUT/client")
}

loads() {
	(
		load_server "$A"
		load_client "$B" "$A" -q 4 --ud 2 --seconds "${FT_SECONDS:-10}"
		load_wait 0
		load_server_stop 0
		cat "$OUT/load.json"
	)
}

check devinfo inside "$A" ibv_devinfo -v
((!failed)) || {
	cat "$FF_LAB/h0/ffr.log"
	exit 1
}
some rc_pingpong between ibv_rc_pingpong -g 0 -n 300 -c
some rc_pingpong-events between ibv_rc_pingpong -g 0 -n 1000 -e -c -s 100000
some uc_pingpong-events between ibv_uc_pingpong -g 0 -n 1000 -e -c
some ud_pingpong between ibv_ud_pingpong -g 0 -n 300 -s 2000 -c
some ud_pingpong-events between ibv_ud_pingpong -g 0 -n 1000 -s 2000 -e -c
some srq_pingpong between ibv_srq_pingpong -g 0 -n 300 -q 4 -c
some srq_pingpong-events between ibv_srq_pingpong -g 0 -n 1000 -q 4 -e -c
some xsrq_pingpong between ibv_xsrq_pingpong -g 0 -n 300
some write_bw between ib_write_bw -F -n 1000 -s 65536
some write_bw-all between ib_write_bw -F -a -n 20
some write_lat between ib_write_lat -F -n 300 -s 8
some read_bw between ib_read_bw -F -n 1000 -s 65536
some send_bw-events between ib_send_bw -F -n 1000 -s 4096 -e
some send_lat between ib_send_lat -F -n 300 -s 100
some send_lat-inline between ib_send_lat -F -n 300 -I 64
some send_bw-ud between ib_send_bw -F -n 1000 -s 1024 -c UD
some atomic_bw between ib_atomic_bw -F -n 1000
some atomic_lat-cmp between ib_atomic_lat -F -n 300 -A CMP_AND_SWAP
some write_bw-cm by_cm "ib_write_bw -F -n 1000 -R" "ib_write_bw -F -n 1000 -R $ip"
some rping by_cm "rping -s -v -V -C 100 -S 1000" "rping -c -v -V -C 100 -S 1000 -a $ip"
some ffload loads
for t; do
	some "$t" timeout 300 "$LAB" exec "$A" -- env VT_SLOW=5 "$TREE/build/tests/system/$t"
done
"$LAB" ffctl h0 -- stats
! grep -E 'sandbox:|error:|fault' "$FF_LAB/h0/ffr.log" || failed=1
check lab-down "$LAB" down
exit "$failed"
