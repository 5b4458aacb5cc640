#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# test: netns
# all: hosts docker system-san
# timeout: 360
# verbs_mcast.sh - multicast inside a container, then from one to several receivers in each of two.
. "$(dirname "$0")/../rig/shell/lab.sh"

program=$BUILD/tests/system/verbs_mcast
group=ff0e::1234:5678
messages=50

step "one container"
inside "$A" "$program" || fail "verbs_mcast ended with $?"

all_ready() {
	local i
	for i in "${!jobs[@]}"; do
		grep -q ready "$OUT/receiver$i" || return 1
	done
}

none_left() {
	local job
	for job in "${jobs[@]}"; do
		! running "$job" || return 1
	done
}

step "from $B to two receivers in $A and two in $B"
sender=$("$LAB" ip "$B")
jobs=()
for c in "$A" "$A" "$B" "$B"; do
	"$LAB" exec "$c" -- "$program" --receive $group $messages "$sender" \
		>"$OUT/receiver${#jobs[@]}" 2>&1 </dev/null &
	jobs+=($!)
done
wait_for 60 all_ready || {
	tail "$OUT"/receiver*
	fail "the receivers did not start"
}
inside "$B" "$program" --send $group $messages || fail "the sender ended with $?"
wait_for 60 none_left || {
	kill "${jobs[@]}"
	tail "$OUT"/receiver*
	fail "not every message came to every receiver"
}
for i in "${!jobs[@]}"; do
	wait "${jobs[i]}" || {
		cat "$OUT/receiver$i"
		fail "receiver $i"
	}
done
