#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# timeout: 480
# stalls.sh - one container's memory is not there, does not come, keeps waiting who reaches for it, moves, may not be used,
# is cut off with its file or punched out of it, or its processes are frozen, in many sessions with many QPs: another
# container's 8-byte WRITEs and control calls go on, and when it is over all is as before.
. "$(dirname "$0")/../rig/shell/lab.sh"

SESSIONS=100 QPS=16

own_lab --containers 2
. "$TREE/tests/rig/shell/victim.sh"

router_threads() {
	local t=("/proc/$(<"$FF_LAB/h0/router.pid")/task/"*)
	echo ${#t[@]}
}

few_threads() {
	(($(router_threads) <= threads))
}

measure "warming up"
measure "alone"
# one of libuv's begins when it is needed
alone=$rate threads=$(($(router_threads) + 1))

# Limits are far from what a machine with neighbours does by itself, and from a request that takes 0.1 s: ten
# a second. A victim that is alone has a CPU, beside others it waits for one: how much that costs is for make bench.
MIN_RATE=500
for kind in unmapped stalled held moved protected cut punched frozen; do
	step "$kind"
	sessions=$SESSIONS
	[[ $kind != @(cut|punched) ]] || sessions=4 # each is a new one all the time
	attack_begin stalls "$kind" $sessions $QPS
	measure "beside it"
	((rate >= MIN_RATE)) || fail "$rate requests a second, alone $alone"
	((p99 <= 20000)) || fail "p99 $p99 us"
	((call50 <= 25000)) || fail "half of the control calls take more than $call50 us"
	((n = $(router_threads)))
	((n <= threads + 6)) || fail "the router has $n threads, before $threads"
	attack_goes_on
	router_ctl stats h0c0 2>/dev/null | grep -E 'pvm|cpu_ns|held' || true
	attack_end
	measure "behind it"
	((rate >= alone / 20)) || fail "$rate requests a second, alone $alone"
	wait_for 60 few_threads || fail "the router has $(router_threads) threads, before $threads"
done
exit 0
