#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# test: netns
# all: hosts docker
# night: system-san
# timeout: 360
# cm_rping.sh - Debian's rping between two containers: its data is checked by its own validation and
# by the pattern that it prints; QPs by the library and by the program itself (rdma_establish,
# rdma_init_qp_attr); many clients of one server.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$(dirname "$0")/../rig/shell/cm.sh"
ip=$("$LAB" ip "$A")

# The text of ping N: as many printable letters as fit, beginning with the Nth.
pattern() { # N LENGTH
	awk -v n="$1" -v len="$2" 'BEGIN {
		s = "rdma-ping-" n ": "
		for (c = 65 + n; length(s) < len - 1; c = c == 122 ? 65 : c + 1)
			s = s sprintf("%c", c)
		print s
	}'
}

pings() { # COUNT
	local i want
	for ((i = 0; i < $1; i++)); do
		want=$(pattern $i 64)
		[[ $(grep -F "ping data: " "$OUT/client" | sed -n "$((i + 1))s/.*ping data: //p") == "$want" &&
			$(grep -F "ping data: " "$OUT/server" | sed -n "$((i + 1))s/.*ping data: //p") == "$want" ]] || {
			cm_show
			fail "ping $i is not \"$want\""
		}
	done
}

writes=$(counter "$A" write_ops) reads=$(counter "$A" read_ops)
cm_pair "rping -s -v -C 10" "rping -c -v -C 10 -a $ip"
pings 10
(($(counter "$A" write_ops) - writes == 10 && $(counter "$A" read_ops) - reads == 10)) ||
	fail "the router did not count 10 writes and 10 reads of the server"

cm_pair "rping -s -V -C 200 -S 60000" "rping -c -V -C 200 -S 60000 -a $ip"
cm_pair "rping -s -q -v -V -C 10" "rping -c -q -v -V -C 10 -a $ip"
pings 10

step "eight clients of one server (-P)"
# It keeps the last request only, so the next client comes when the one before is connected.
served() {
	(($(counter "$A" cm_connections) >= $1)) || ended "${jobs[$1]}"
}
writes=$(counter "$A" write_ops)
cm_server "$A" 1 rping -s -P -V
for i in 1 2 3 4 5 6 7 8; do
	timeout 300 "$LAB" exec "$B" -- rping -c -V -C 500 -a "$ip" >"$OUT/client$i" 2>&1 </dev/null &
	jobs[i]=$!
	wait_for 60 served $i || fail "client $i is not connected"
done
for i in 1 2 3 4 5 6 7 8; do
	wait "${jobs[i]}" || cm_raced $? "$OUT/client$i" || fail "client $i ended badly: $(cat "$OUT/client$i")"
	! complaint "$OUT/client$i" || fail "client $i complains"
done
(($(counter "$A" write_ops) - writes == 8 * 500)) || fail "not 4000 pings of the server"
running "$SERVER_JOB" || fail "the server ended"
kill "$SERVER_JOB"
wait "$SERVER_JOB"
wait_for 30 cm_none "$A" || fail "ids are left in $A"
wait_for 30 cm_none "$B" || fail "ids are left in $B"

step "nobody listens"
timeout 60 "$LAB" exec "$B" -- rping -c -C 1 -a "$ip" >"$OUT/client" 2>&1
refused $? || fail "the client did not fail: $(cat "$OUT/client")"
grep -q 'RDMA_CM_EVENT_REJECTED' "$OUT/client" || fail "not rejected: $(cat "$OUT/client")"
exit 0
