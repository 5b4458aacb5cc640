#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# test: netns hosts docker
# night: system-san
# timeout: 360
# pingpong.sh - rdma-core's ping-pong programs between two containers, with their options.
. "$(dirname "$0")/../rig/shell/lab.sh"

# Both sides report all bytes of all iterations, both ways.
moved() { # SIZE ITERS
	local f
	for f in client server; do
		grep -qs "^$(($1 * $2 * 2)) bytes in " "$OUT/$f" ||
			fail "$f does not report $2 times $1 bytes: $(cat "$OUT/$f")"
		grep -qs "^$2 iters in " "$OUT/$f" || fail "$f does not report $2 iterations"
	done
}

SLACK=0
pingpong() { # PROGRAM SIZE ITERS OPTIONS...
	local program=$1 size=$2 iters=$3 sent received
	shift 3
	sent=$(counter "$B" tx_bytes) received=$(counter "$B" rx_bytes)
	pair "$A" "$B" "$program" -g 0 -s "$size" -n "$iters" "$@"
	moved "$size" "$iters"
	sent=$(($(counter "$B" tx_bytes) - sent))
	received=$(($(counter "$B" rx_bytes) - received))
	# ibv_srq_pingpong looks at its count between rounds only, and one round is a message per QP.
	((sent == size * iters || (sent > size * iters && sent < size * (iters + SLACK)))) ||
		fail "$sent bytes went through the router, not $((size * iters))"
	((received >= size * iters)) || fail "$received bytes came, not $((size * iters))"
}

for program in ibv_rc_pingpong ibv_uc_pingpong ibv_srq_pingpong; do
	[[ $program != ibv_srq_pingpong ]] || SLACK=64
	pingpong $program 4096 500
	pingpong $program 65537 200 -e
	for size in 1 64 65537; do
		in_full pingpong $program $size 500
	done
	for size in 1 64 4096; do
		in_full pingpong $program $size 200 -e
	done
	in_full pingpong $program 1048576 50
	in_full pingpong $program 4096 5000 -r 16
done
SLACK=0
pingpong ibv_ud_pingpong 256 500
pingpong ibv_ud_pingpong 1024 200 -e
for size in 1 1024; do
	in_full pingpong ibv_ud_pingpong $size 500
	in_full pingpong ibv_ud_pingpong $size 200 -e
done

# Contents are checked on both sides; -N is the ibv_wr_* API.
for size in 1 4096 100000; do
	pingpong ibv_rc_pingpong $size 200 -c
	in_full pingpong ibv_rc_pingpong $size 200 -c -e
	in_full pingpong ibv_rc_pingpong $size 200 -c -N
	in_full pingpong ibv_rc_pingpong $size 200 -N -e
done
# On-demand memory; -P has it prefetched, -O is all of the address space.
for size in 1 4096 100000; do
	pingpong ibv_rc_pingpong $size 200 -c -o
	in_full pingpong ibv_rc_pingpong $size 200 -c -o -P
	in_full pingpong ibv_rc_pingpong $size 200 -c -O
	in_full pingpong ibv_rc_pingpong $size 200 -O -P -e
done
for mtu in 256 4096; do
	in_full pingpong ibv_rc_pingpong 10000 100 -m $mtu -c
done
SLACK=64
pingpong ibv_srq_pingpong 4096 1000 -q 16
in_full pingpong ibv_srq_pingpong 4096 1000 -q 64 -e

step "completions with time stamps: they work, or are refused in so many words"
server "$A" ibv_rc_pingpong -g 0 -t
inside "$B" ibv_rc_pingpong -g 0 -t -p "$PORT" "$A" >"$OUT/client" 2>&1
status=$?
((status == 0)) || kill "$SERVER_JOB" 2>/dev/null
wait "$SERVER_JOB"
cat "$OUT/client"
((status < 126)) || fail "ended with $status"
((status == 0)) || [[ -s $OUT/client ]] || fail "refused without a word"
exit 0
