#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# timeout: 480
# stalls.sh - one container's memory is not there, does not come, keeps waiting who reaches for it, or moves, in
# many sessions with many QPs: another container's 8-byte WRITEs go on, and when it is over all is as before.
. "$(dirname "$0")/../rig/shell/lab.sh"

SESSIONS=100 QPS=16
MS=1000

own_lab --containers 2
coproc victim { inside h0c1 "$BUILD/tests/hostile/stalls" victim; }

# What the victim has done in so many ms: requests, a second, p50, p99 and the longest, us.
measure() {
	echo "$MS" >&"${victim[1]}"
	read -r -t 60 -u "${victim[0]}" n rate p50 p99 longest || fail "the victim does not answer"
	echo "$1: $n requests, $rate 1/s, p50 $p50 us, p99 $p99 us, longest $longest us"
}

router_threads() {
	local t=("/proc/$(<"$FF_LAB/h0/router.pid")/task/"*)
	echo ${#t[@]}
}

few_threads() {
	(($(router_threads) <= threads))
}

measure "warming up"
measure "alone"
alone=$rate threads=$(router_threads)

# Limits are far from what a machine with neighbours does by itself, and from a request that takes 0.1 s: ten
# a second. A victim that is alone has a CPU, beside others it waits for one: how much that costs is for make bench.
MIN_RATE=500
for kind in unmapped stalled held moved; do
	step "$kind"
	mkfifo "$OUT/$kind"
	inside h0c0 "$BUILD/tests/hostile/stalls" $kind $SESSIONS $QPS <"$OUT/$kind" >"$OUT/$kind.log" 2>&1 &
	attack=$!
	exec 5>"$OUT/$kind"
	wait_for 120 grep -qs attacks "$OUT/$kind.log" || {
		cat "$OUT/$kind.log"
		fail "the attack does not begin"
	}
	measure "beside it"
	((rate >= MIN_RATE)) || fail "$rate requests a second, alone $alone"
	((p99 <= 20000)) || fail "p99 $p99 us"
	((n = $(router_threads)))
	((n <= threads + 6)) || fail "the router has $n threads, before $threads"
	running $attack || {
		cat "$OUT/$kind.log"
		fail "the attack has ended"
	}
	router_ctl stats h0c0 2>/dev/null | grep -E 'pvm|cpu_ns|held' || true
	exec 5>&-
	wait $attack
	measure "behind it"
	((rate >= alone / 20)) || fail "$rate requests a second, alone $alone"
	wait_for 60 few_threads || fail "the router has $(router_threads) threads, before $threads"
done
exit 0
