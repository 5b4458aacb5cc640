#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# timeout: 480
# stalls.sh - one container's memory is not there, does not come, keeps waiting who reaches for it, moves, may not be used,
# is cut off with its file or punched out of it, or its processes are frozen, in many sessions with many QPs: another
# container's 8-byte WRITEs and control calls go on, and when it is over all is as before.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$TREE/tests/rig/shell/victim.sh"

SESSIONS=100 QPS=16

own_lab --containers 2
victim_start

router_threads() {
	local t=("/proc/$(<"$FF_LAB/h0/router.pid")/task/"*)
	echo ${#t[@]}
}

few_threads() {
	(($(router_threads) <= threads))
}

victim_gets_on "alone"
# one of libuv's begins when it is needed
threads=$(($(router_threads) + 1))

for kind in unmapped stalled held moved protected cut punched frozen; do
	step "$kind"
	sessions=$SESSIONS
	[[ $kind != @(cut|punched) ]] || sessions=4 # each is a new one all the time
	attack_begin stalls "$kind" $sessions $QPS
	victim_gets_on "beside it"
	((n = $(router_threads)))
	((n <= threads + 6)) || fail "the router has $n threads, before $threads"
	attack_goes_on
	router_ctl stats h0c0 2>/dev/null | grep -E 'pvm|cpu_ns|held' || true
	attack_end
	victim_gets_on "behind it"
	wait_for 60 few_threads || fail "the router has $(router_threads) threads, before $threads"
done
exit 0
