#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# test: netns
# all: system-san
# night: netns docker
# timeout: 300
# cm_router.sh - rdma_cm when things end from outside: clients that are killed while connected, and
# the router's death, which takes the device from connected ids (cm_router.c), but not from programs that listen on
# all addresses (cm_returns.sh); after its restart new programs work. And containers with an IPv6 address.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$(dirname "$0")/../rig/shell/cm.sh"
. "$TREE/tests/rig/shell/router_dies.sh"
own_lab --containers 2
ip=$("$LAB" ip h0c0)

connected() {
	(($(counter h0c0 cm_connections) >= $1))
}

unconnected() {
	! connected 1
}

listeners() {
	(($(counter h0c0 cm_listeners) == $1))
}

pinging() {
	(($(counter h0c0 write_ops) > $1))
}

step "clients are killed; the server goes on"
cm_server h0c0 1 rping -s -P
for round in $(rounds 3); do
	"$LAB" exec h0c1 -- rping -c -a "$ip" -C 1000000 >"$OUT/client" 2>&1 </dev/null &
	client=$!
	before=$(counter h0c0 write_ops)
	wait_for 60 pinging $((before + 100)) || fail "round $round: no pings: $(cat "$OUT/client")"
	inside h0c1 /bin/sh -c 'kill -KILL -1'
	wait $client
	wait_for 60 cm_none h0c1 || fail "round $round: ids are left"
	wait_for 60 unconnected || fail "round $round: the server is still connected"
done
running "$SERVER_JOB" || fail "the server ended: $(cat "$OUT/server")"
timeout 90 "$LAB" exec h0c1 -- rping -c -a "$ip" -C 10 -V >"$OUT/client" 2>&1 ||
	fail "rping ended with $?: $(cat "$OUT/client")"

step "the router dies under a connection and under a listener"
"$LAB" exec h0c1 -- rping -c -a "$ip" -C 1000000 >"$OUT/client" 2>&1 </dev/null &
client=$!
"$LAB" exec h0c0 -- ucmatose -p 7555 >"$OUT/waiting" 2>&1 </dev/null &
waiting=$!
before=$(counter h0c0 write_ops)
wait_for 60 pinging $((before + 100)) || fail "no pings: $(cat "$OUT/client")"
wait_for 60 listeners 2 || fail "ucmatose: $(cat "$OUT/waiting")"
"$LAB" kill router h0
wait_for 60 ended $client || fail "the client is still there: $(cat "$OUT"/*)"
wait $client
status=$?
((status < 124 || status == 255)) || fail "the client ended with $status: $(cat "$OUT"/*)"
running $waiting || fail "ucmatose ended: $(cat "$OUT"/*)"

step "no router"
end_program h0c0 rping # where it has not ended with its connection
end_program h0c0 ucmatose
wait $waiting "$SERVER_JOB"
timeout 30 "$LAB" exec h0c0 -- rping -s -C 1 >"$OUT/client" 2>&1
refused $? || fail "rping -s: $(cat "$OUT/client")"
grep -q 'No RDMA devices' "$OUT/client" || fail "$(cat "$OUT/client")"

step "the router is back"
"$LAB" restart router h0 || fail "restart"
router_dies cm_router
cm_pair "rping -s -V -C 5" "rping -c -V -C 5 -a $ip"

# a Docker network has IPv6 only where the engine was told so: getaddrinfo() finds none
[[ $ENGINE == netns ]] || exit 0

step "IPv6, and addresses as GIDs"
router_ctl container set h0c0 --ip "$ip" --ip fd00::a >/dev/null || fail "container set"
router_ctl container set h0c1 --ip "$("$LAB" ip h0c1)" --ip fd00::b >/dev/null || fail "container set"
cm_pair "rping -s -a :: -V -C 5" "rping -c -V -C 5 -a fd00::a"
for format in ip gid; do
	cm_pair "ucmatose -f $format -b fd00::a" "ucmatose -f $format -s fd00::a"
	said client 1 "^return status 0"
done
exit 0
