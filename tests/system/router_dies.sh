#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# timeout: 300
# router_dies.sh - kill -9 of the router under traffic: programs end with an error soon, a waiting
# one gets the fatal event within a second, nothing is killed by a signal; after a restart the same
# containers work again.
. "$(dirname "$0")/../rig/shell/lab.sh"
own_lab --containers 3

step "programs that run when the router dies"
"$LAB" exec h0c2 -- ibv_asyncwatch >"$OUT/watch" 2>&1 &
watch=$!
wait_for 60 grep -qs 'async event FD' "$OUT/watch" || fail "ibv_asyncwatch: $(cat "$OUT/watch")"

server h0c0 ib_write_bw -F -D 60
"$LAB" exec h0c1 -- ib_write_bw -F -D 60 -p $PORT h0c0 >"$OUT/poll" 2>&1 </dev/null &
poll=$!
poll_server=$SERVER_JOB
server h0c0 ibv_rc_pingpong -g 0 -e -n 100000000
"$LAB" exec h0c1 -- ibv_rc_pingpong -g 0 -e -n 100000000 -p $PORT h0c0 >"$OUT/events" 2>&1 </dev/null &
events=$!
events_server=$SERVER_JOB

traffic() {
	(($(counter h0c1 write_ops) > 1000 && $(counter h0c1 send_ops) > 100))
}
wait_for 60 traffic || fail "no traffic: $(cat "$OUT"/*)"

"$LAB" kill router h0
wait_for 30 grep -qs 'IBV_EVENT_DEVICE_FATAL\|event_type .*(8)' "$OUT/watch" ||
	fail "no fatal event: $(cat "$OUT/watch")"
for job in "$poll" "$events" "$poll_server" "$events_server"; do
	wait_for 60 ended "$job" || fail "a program is still there: $(cat "$OUT"/*)"
	wait "$job"
	status=$?
	refused $status || fail "a program ended with $status: $(cat "$OUT"/*)"
done
kill $watch 2>/dev/null
wait $watch

step "with no router: an empty list, and errors in words"
timeout 30 "$LAB" exec h0c0 -- ibv_devices >"$OUT/none" 2>&1 || fail "ibv_devices: status $?"
! grep -qs ff0 "$OUT/none" || fail "ibv_devices shows a device"
for cmd in ibv_devinfo "ibv_rc_pingpong -g 0" "ib_write_bw -F"; do
	# shellcheck disable=SC2086
	timeout 30 "$LAB" exec h0c0 -- $cmd >"$OUT/none" 2>&1
	status=$?
	refused $status || fail "$cmd ended with $status: $(cat "$OUT/none")"
	[[ -s $OUT/none ]] || fail "$cmd says nothing"
done

step "the router is back"
"$LAB" restart router h0 || fail "restart"
pair h0c0 h0c1 ib_write_bw -F -n 1000
bandwidth 1000 65536
exit 0
