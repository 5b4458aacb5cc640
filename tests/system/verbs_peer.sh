#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# timeout: 300
# hosts: yes
# verbs_peer.sh - verbs_peer in one container, then with its two halves in two, both ways about.
. "$(dirname "$0")/../lib/lab.sh"

program=$BUILD/tests/system/verbs_peer

step "both halves in $A"
inside "$A" "$program" || fail "verbs_peer ended with $?"

two_containers() { # SERVER CLIENT
	local job status

	step "$2 to $1"
	((++PORT))
	"$LAB" exec "$1" -- "$program" --server $PORT >"$OUT/server" 2>&1 </dev/null &
	job=$!
	inside "$2" "$program" --client "$1" --port $PORT
	status=$?
	((status == 0)) || kill $job 2>/dev/null
	wait $job && ((status == 0)) && return
	sed 's/^/  server: /' "$OUT/server"
	fail "client ended with $status"
}

two_containers "$A" "$B"
two_containers "$B" "$A"
