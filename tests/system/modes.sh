#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# all: netns
# night: hosts docker system-san
# timeout: 360
# modes.sh - the same programs in each channel mode of the containers; in socket and adaptive mode an
# idle router costs no CPU.
. "$(dirname "$0")/../rig/shell/lab.sh"

# CPU time of the routers in ticks.
ticks() {
	local pid
	for pid in "$FF_LAB"/h*/router.pid; do
		cat "/proc/$(<"$pid")/stat"
	done | awk '{ sum += $14 + $15 } END { print sum }'
}

for mode in socket spin adaptive; do
	step "mode $mode"
	own_lab --containers 2 --mode $mode
	grep -q "$mode" <<<"$(router_ctl container list)" || fail "$A is not in mode $mode"
	pair "$A" "$B" ibv_rc_pingpong -g 0 -n 500 -c
	pair "$A" "$B" ibv_rc_pingpong -g 0 -n 500 -c -e
	pair "$A" "$B" ibv_ud_pingpong -g 0 -n 200
	pair "$A" "$B" ibv_srq_pingpong -g 0 -n 500
	pair "$A" "$B" ib_write_bw -F -n 1000
	bandwidth 1000 65536
	pair "$A" "$B" ib_read_bw -F -n 500 -q 4 -b -e
	bandwidth 2000 65536
	pair "$A" "$B" ib_send_lat -F -n 500 -s 8
	latency 500 8
	pair "$A" "$B" ib_atomic_lat -F -n 200
	latency 200 8
	if [[ $mode != spin ]]; then
		# An attached program that waits: with it the router still sleeps.
		"$LAB" exec "$A" -- ibv_asyncwatch >"$OUT/watch" 2>&1 &
		wait_for 60 grep -qs 'async event FD' "$OUT/watch" || fail "ibv_asyncwatch"
		before=$(ticks)
		# Not a wait for something to happen: nothing is to happen for a second.
		read -r -t 1 </dev/zero
		after=$(ticks)
		((after - before <= 2 * HOSTS)) || fail "idle, they took $((after - before)) ticks in a second"
		kill $!
	fi
	wait
	FF_LAB=$OWN_LAB "$LAB" down || fail "lab down"
	OWN_LAB=
done
exit 0
