#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# test: netns
# all: system-san
# night: hosts docker
# timeout: 480
# verbs_xrc.sh - XRC between two containers: ibv_xsrq_pingpong with one client and with several,
# and perftest's programs with -c XRC and --use-srq.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$(dirname "$0")/../rig/shell/perftest.sh"

# pingpong CLIENTS OPTIONS...: a server in $A, clients in $B, which share a domain there.
pingpong() {
	local n=$1 i job jobs=()
	shift
	step "ibv_xsrq_pingpong $*, $n clients"
	server "$A" ibv_xsrq_pingpong -g 0 -c "$n" "$@"
	for ((i = 0; i < n; i++)); do
		timeout 180 "$LAB" exec "$B" -- ibv_xsrq_pingpong -g 0 -c "$n" "$@" -p $PORT "$A" \
			>"$OUT/client$i" 2>&1 &
		jobs+=($!)
	done
	i=0
	for job in "${jobs[@]}"; do
		wait "$job" || fail "client $i ended with $?: $(cat "$OUT/client$i")"
		grep -qs '^success' "$OUT/client$i" || fail "client $i: $(cat "$OUT/client$i")"
		((++i))
	done
	wait "$SERVER_JOB" || fail "the server ended with $?: $(cat "$OUT/server")"
	grep -qs '^success' "$OUT/server" || fail "server: $(cat "$OUT/server")"
}

before=$(counter "$A" recv_ops)
pingpong 1
pingpong 1 -e -s 65536 -n 50
pingpong 3 -n 50
pingpong 4 -n 20 -e
# A server takes the messages of each client: 5, 50, 3 * 50, 4 * 20.
got=$(($(counter "$A" recv_ops) - before))
((got >= 285)) || fail "only $got messages came through the router"

VERB="send"
bw 1000 65536 -c XRC
bw 1000 65536 -c XRC -e
bw 1000 65536 -c XRC --use_old_post_send
bw 500 4096 -c XRC -q 4
bw 1000 65536 --use-srq
bw 500 4096 --use-srq -q 4
lat 1000 64 -c XRC
lat 1000 64 -c XRC -e
lat 1000 64 --use-srq
VERB="write"
bw 1000 65536 -c XRC
bw 1000 64 -c XRC -I 64
lat 1000 64 -c XRC
VERB="read"
bw 1000 65536 -c XRC
lat 1000 64 -c XRC
VERB="atomic"
bw 1000 8 -c XRC -A FETCH_AND_ADD
bw 1000 8 -c XRC -A CMP_AND_SWAP --use_old_post_send
lat 1000 8 -c XRC -A FETCH_AND_ADD
exit 0
