#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# test: netns
# all: system-san
# timeout: 300
# spin.sh - with `spin = auto` a router spins only while a latency-sensitive container is on its host.
. "$(dirname "$0")/../rig/shell/lab.sh"

own_lab --containers 2 --mode spin
echo 'spin = auto' >>"$FF_LAB/h0/ffr.conf"
"$LAB" kill router h0
"$LAB" restart router h0 || fail "restart"

# CPU time of the router, in ticks of 10 ms; and what it takes in a second.
ticks() {
	awk '{ print $14 + $15 }' "/proc/$(<"$FF_LAB/h0/router.pid")/stat"
}
ticks_in_a_second() {
	local before
	before=$(ticks)
	# Not a wait for something to happen: nothing is to happen for a second.
	read -r -t 1 </dev/zero
	echo $(($(ticks) - before))
}

spun() {
	(($(ticks) - begin >= 50))
}

"$LAB" exec h0c0 -- ibv_asyncwatch >"$OUT/watch" 2>&1 &
watch=$!
wait_for 10 grep -qs 'async event FD' "$OUT/watch" || fail "ibv_asyncwatch"

step "nobody is latency-sensitive: it sleeps, and serves nevertheless"
n=$(ticks_in_a_second)
((n <= 3)) || fail "idle, it took $n ticks in a second"
pair h0c0 h0c1 ibv_rc_pingpong -g 0 -n 500 -c
n=$(ticks_in_a_second)
((n <= 3)) || fail "idle, it took $n ticks in a second"

step "with one that is, it spins for all"
router_ctl container set h0c1 --latency yes || fail "container set"
begin=$(ticks)
# Asleep, it takes 30 ticks in this time at most.
wait_for 10 spun || fail "it took $(($(ticks) - begin)) ticks in 10 s"
pair h0c0 h0c1 ibv_rc_pingpong -g 0 -n 500 -c

step "without, it sleeps again"
router_ctl container set h0c1 --latency no || fail "container set"
n=$(ticks_in_a_second)
((n <= 3)) || fail "idle, it took $n ticks in a second"
running $watch || fail "the program has ended"
kill $watch
wait $watch
exit 0
