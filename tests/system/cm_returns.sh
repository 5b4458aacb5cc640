#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# test: netns
# all: system-san
# night: docker hosts
# timeout: 360
# cm_returns.sh - servers that go on without having been started again when their router is: a program of ours
# (cm_returns.c), Debian's rping, ucmatose and rstream. Once the router ends with all of its processes, and the next one makes
# its sockets anew; once its first process starts it again, and the sockets stay.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$(dirname "$0")/../rig/shell/cm.sh"
own_lab --containers 2
ip=$("$LAB" ip h0c0)

router_restarts() {
	"$LAB" kill router h0
	"$LAB" restart router h0 || fail "restart"
}

first() {
	cat "$OWN_LAB/h0/ffr.pid"
}

router_pid() {
	pgrep -P "$(first)" -x ffr
}

old_enough() { # a router that dies sooner is not started again (ffr/keeper/parent.c)
	(($(date +%s) - $(stat -c %Y "/proc/$(router_pid)") > 3))
}

router_alone_dies() {
	wait_for 60 old_enough || fail "its age"
	kill -KILL "$(router_pid)"
}

for dies in router_restarts router_alone_dies; do
	step "each way to listen: $dies"
	rm -f "$OUT/out"
	"$LAB" exec h0c0 -- "$BUILD/tests/system/cm_returns" >"$OUT/out" 2>&1 </dev/null &
	job=$!
	wait_for 60 grep -qs '^ready' "$OUT/out" || fail "not ready: $(cat "$OUT/out")"
	$dies
	wait_for 120 ended $job || fail "still there: $(cat "$OUT/out")"
	wait $job || fail "$(cat "$OUT/out")"
done

listeners() {
	(($(counter h0c0 cm_listeners) == $1))
}

cm_unconnected() {
	[[ $(counter h0c0 cm_connections) == 0 ]]
}

# A device whose router ended leaves no descriptor in a program that has destroyed its ids. Without pgrep, which hangs beneath
# AddressSanitizer.
rping_descriptors() {
	# shellcheck disable=SC2016
	inside h0c0 /bin/sh -c 'for p in /proc/[0-9]*; do
		read -r name <"$p/comm" && [ "$name" = rping ] && set -- "$p"/fd/* && echo $#
	done'
}

as_many() {
	(($(rping_descriptors) == $1))
}

step "Debian's servers"
cm_server h0c0 1 rping -s -P
rping=$SERVER_JOB
"$LAB" exec h0c0 -- ucmatose -p 7555 >"$OUT/ucmatose" 2>&1 </dev/null &
ucmatose=$!
"$LAB" exec h0c0 -- rstream -p 7666 -S 64 -I 10 >"$OUT/rstream" 2>&1 </dev/null &
rstream=$!
wait_for 60 listeners 3 || fail "not three listeners: $(cat "$OUT"/*)"
for dies in router_restarts router_alone_dies router_restarts; do
	$dies
	wait_for 60 listeners 3 || fail "$dies: not three listeners: $(cat "$OUT"/*)"
	timeout 90 "$LAB" exec h0c1 -- rping -c -a "$ip" -C 10 -V >"$OUT/client" 2>&1 </dev/null ||
		cm_raced $? "$OUT/client" || fail "rping ended with $?: $(cat "$OUT/client" "$OUT/server")"
	wait_for 60 cm_unconnected || fail "$dies: the connection is still there"
	descriptors=${descriptors:-$(rping_descriptors)}
	wait_for 60 as_many "$descriptors" || fail "$dies: rping has $(rping_descriptors) descriptors, not $descriptors"
done
timeout 90 "$LAB" exec h0c1 -- ucmatose -s "$ip" -p 7555 >"$OUT/client" 2>&1 </dev/null ||
	fail "ucmatose ended with $?: $(cat "$OUT/client" "$OUT/ucmatose")"
timeout 90 "$LAB" exec h0c1 -- rstream -s "$ip" -p 7666 -S 64 -I 10 >"$OUT/client" 2>&1 </dev/null ||
	fail "rstream ended with $?: $(cat "$OUT/client" "$OUT/rstream")"
for job in $ucmatose $rstream; do
	wait_for 60 ended "$job" || fail "a server is still there: $(cat "$OUT/ucmatose" "$OUT/rstream")"
	wait "$job" || fail "a server ended with $?: $(cat "$OUT/ucmatose" "$OUT/rstream")"
done
running "$rping" || fail "rping ended: $(cat "$OUT/server")"
exit 0
