#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# all: hosts
# timeout: 360
# fault_cm.sh - connections of rdma_cm are made and ended all the time between two hosts whose link is
# cut and heals: no program notices, the server has been asked once for each, and nothing is left. A cut
# of 5 s ends the connection of the two routers, with what is in it.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$(dirname "$0")/../rig/shell/cm.sh"
own_lab --containers 1
FF_LAB=$OWN_LAB

# The sums that the two print, the last ones.
sum() { # FILE
	awk '$2 == "connections" { n = $1 } END { print n + 0 }' "$OUT/$1"
}

# So many connections more than N.
grown() { # N MORE
	(($(sum client) >= $1 + $2))
}

only_listeners() {
	[[ $(counter h1c0 cm_ids cm_listeners cm_connections) == "2 2 0" ]] && cm_none h0c0
}

cm_server h1c0 2 "$BUILD/tests/system/fault_cm" --server $PORT
"$LAB" exec h0c0 -- "$BUILD/tests/system/fault_cm" "$("$LAB" ip h1c0)" $PORT >"$OUT/client" 2>&1 &
client=$!
for seconds in 0.2 5 1 5 5; do
	step "cut for $seconds s"
	wait_for 90 grown "$(sum client)" 100 || fail "no connections"
	"$LAB" partition h1
	sleep $seconds # the cut is what is tested
	"$LAB" heal h1
	if ! running $client || ! running "$SERVER_JOB"; then
		cm_show
		fail "a program has ended"
	fi
done
wait_for 90 grown "$(sum client)" 100 || fail "no connections after the last cut"
end_program h0c0 fault_cm
wait_for 70 ended $client || fail "the client has a connection that does not come to its end"
wait $client || {
	cm_show
	fail "the client has failed"
}
wait_for 90 only_listeners ||
	fail "left at the server: $(counter h1c0 cm_ids cm_listeners cm_connections)"
end_program h1c0 fault_cm
wait "$SERVER_JOB" || {
	cm_show
	fail "the server has failed"
}
step "$(sum client) connections, $(sum server) requests"
(($(sum client) > 100)) || fail "too few"
[[ $(sum client) == "$(sum server)" ]] || fail "not as many requests"
exit 0
