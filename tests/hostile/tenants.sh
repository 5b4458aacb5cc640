#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# timeout: 360
# tenants.sh - a container of another tenant, which no policy allows anything: it asks a listener of rdma_cm for
# connections without end, and sends to a multicast group that has the same address as one of the victims'. The listener
# sees no request of it and answers its own tenant as before; receivers get nothing of it. With a policy it is let in.
. "$(dirname "$0")/../rig/shell/lab.sh"

GROUP=ff0e::42

own_lab --containers 3
listener=$BUILD/tests/hostile/backlog mcast=$BUILD/tests/system/verbs_mcast
address=$("$LAB" ip h0c2)

other_tenant() {
	"$LAB" stop h0c2 && router_ctl container rm h0c2 &&
		router_ctl container add h0c2 --ip "$address" --tenant red && "$LAB" start h0c2
}
other_tenant >"$OUT/tenant.log" 2>&1 || fail "h0c2 is not of tenant red: $(cat "$OUT/tenant.log")"

ask() { # WHEN
	local before
	before=$(inside h0c0 "$listener" ask h0c1 20)
	[[ $before == +([0-9]) ]] || fail "$1: a request was not answered: $before"
	echo "$1: 20 requests were answered"
}

step "requests to another tenant's listener"
inside h0c1 "$listener" listen >"$OUT/listen.log" 2>&1 &
wait_for 60 grep -qs listens "$OUT/listen.log" || fail "the listener does not begin"
ask "alone"
mkfifo "$OUT/go"
inside h0c2 "$listener" flood h0c1 <"$OUT/go" >"$OUT/flood.log" 2>&1 &
attack=$!
exec 5>"$OUT/go"
ask "beside it"
running "$attack" || fail "the attack has ended: $(cat "$OUT/flood.log")"
! grep -q attacks "$OUT/flood.log" || fail "its requests are sent to another tenant"
(($(counter h0c2 cm_connections) == 0)) || fail "it is connected"
exec 5>&-
wait "$attack"

step "its tenant's multicast group, by the same address"
inside h0c1 "$mcast" --receive $GROUP 50 "$("$LAB" ip h0c0)" >"$OUT/receive" 2>&1 &
receiver=$!
wait_for 60 grep -qs ready "$OUT/receive" || fail "the receiver: $(cat "$OUT/receive")"
timeout 60 "$LAB" exec h0c2 -- "$mcast" --send $GROUP 50 >"$OUT/other" 2>&1 || fail "$(cat "$OUT/other")"
timeout 60 "$LAB" exec h0c0 -- "$mcast" --send $GROUP 50 >"$OUT/send" 2>&1 || fail "$(cat "$OUT/send")"
wait_for 60 ended $receiver || fail "the receiver is not done: $(cat "$OUT/receive")"
wait $receiver || fail "the receiver got something else: $(cat "$OUT/receive")"

step "datagrams to its QP"
# pingpong CLIENT: with a server in h0c1, which tells the client its QP's number and GID by TCP
pingpong() {
	local server
	"$LAB" exec h0c1 -- timeout 40 stdbuf -oL ibv_ud_pingpong -g 0 -n 100 >"$OUT/server" 2>&1 &
	server=$!
	wait_for 60 grep -qs 'local address' "$OUT/server" || fail "ibv_ud_pingpong: $(cat "$OUT/server")"
	timeout 20 "$LAB" exec "$1" -- stdbuf -oL ibv_ud_pingpong -g 0 -n 100 h0c1 >"$OUT/client" 2>&1 && wait $server
}
pingpong h0c0 || fail "in one tenant: $(cat "$OUT/client" "$OUT/server")"
! pingpong h0c2 || fail "to another tenant: $(cat "$OUT/client")"
grep -q 'remote address' "$OUT/client" || fail "it has heard of no QP: $(cat "$OUT/client")"
cat "$OUT/client"

step "with a policy"
router_ctl policy allow default red >/dev/null || fail "policy"
answered() {
	timeout 30 "$LAB" exec h0c2 -- "$listener" ask h0c1 2 >"$OUT/allowed" 2>&1
}
wait_for 60 answered || fail "it is not let in: $(cat "$OUT/allowed")"
ask "behind it"
exit 0
