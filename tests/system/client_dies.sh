#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# test: netns
# all: system-san
# night: hosts docker
# timeout: 360
# client_dies.sh - kill -9 of programs in the middle of traffic, many times: the router closes their
# objects, other containers go on undisturbed, and everything works afterwards.
. "$(dirname "$0")/../rig/shell/lab.sh"

# Sessions, and all that was theirs.
nothing_left() {
	local c
	for c in "$A" "$B"; do
		[[ $(counter "$c" sessions qps cqs srqs mrs pds registered_bytes) == "0 0 0 0 0 0 0" ]] ||
			return 1
	done
}

step "a neighbour runs all the time"
server "$C" ib_write_bw -F -D 600
neighbour_server=$SERVER_JOB
"$LAB" exec "$D" -- ib_write_bw -F -D 600 -p $PORT "$C" >"$OUT/neighbour" 2>&1 </dev/null &
neighbour=$!

victim() { # PROGRAM OPTIONS...
	local before
	step "kill -9: $*"
	server "$A" "$@"
	before=$(counter "$B" tx_bytes rx_bytes atomic_ops)
	"$LAB" exec "$B" -- "$@" -p $PORT "$A" >"$OUT/client" 2>&1 </dev/null &
	local job=$!
	moving() {
		[[ $(counter "$B" tx_bytes rx_bytes atomic_ops) != "$before" ]]
	}
	wait_for 60 moving || fail "no traffic: $(cat "$OUT/client")"
	inside "$B" /bin/sh -c 'kill -KILL -1'
	wait $job
	# What a server does about a lost peer is its own affair; it goes too.
	inside "$A" /bin/sh -c 'kill -KILL -1'
	wait "$SERVER_JOB"
	wait_for 30 nothing_left || fail "sessions are left: $(router_ctl container list)"
}

rounds=$(in_full echo 2)
for ((round = 1; round <= ${rounds:-1}; round++)); do
	step "round $round"
	victim ib_write_bw -F -D 60 -q 16
	victim ib_read_bw -F -D 60 -s 1048576
	victim ib_send_bw -F -D 60 -b
	victim ib_send_bw -F -D 60 -c UD -s 1024
	victim ib_atomic_bw -F -D 60
	victim ibv_srq_pingpong -g 0 -n 100000000 -e
done

running $neighbour || fail "the neighbour ended: $(cat "$OUT/neighbour")"
before=$(counter "$D" write_ops)
more() {
	(($(counter "$D" write_ops) > before + 1000))
}
wait_for 60 more || fail "the neighbour stands still"
kill $neighbour "$neighbour_server"
wait

pair "$A" "$B" ib_write_bw -F -n 1000
bandwidth 1000 65536
exit 0
