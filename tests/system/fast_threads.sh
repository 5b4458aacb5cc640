#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# all: netns
# night: system-san
# timeout: 480
# fast_threads.sh - a router with two fast threads: containers that talk come together, loads are
# evened out, and programs that check every byte notice nothing while they are moved all the time.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$TREE/tests/rig/shell/load.sh"

own_lab --containers 4
echo 'fast_threads = 2' >>"$OWN_LAB/h0/ffr.conf"
"$LAB" restart router h0 || fail "restart"

thread_of() {
	router_ctl container show "$1" | sed -n 's/^thread *//p'
}

apart() { # A and C: no program runs, or two that have nothing to do with each other
	[[ $(thread_of h0c0) != "$(thread_of h0c2)" ]]
}

metric() {
	curl -sf --unix-socket "$OWN_LAB/h0/metrics.sock" http://localhost/metrics |
		sed -n "s/^freeflow_$1 //p"
}

step "spread over two threads, which the screens and the metrics tell"
[[ $(for c in h0c0 h0c1 h0c2 h0c3; do thread_of $c; done | sort | uniq -c | tr -s ' \n' ' ') == \
	" 2 0 2 1 " ]] || fail "$(router_ctl container show h0c0)"
[[ $(metric fast_threads) == 2 ]] || fail "$(metric fast_threads)"

step "errors of ffctl container thread"
! router_ctl container thread h0c0 2 2>"$OUT/err" || fail "thread 2"
grep -q 'fast threads are 0 to 1' "$OUT/err" || fail "$(cat "$OUT/err")"
! router_ctl container thread h0c0 x 2>"$OUT/err" || fail "thread x"
! router_ctl container thread nobody 0 2>"$OUT/err" || fail "nobody"
grep -q 'no container' "$OUT/err" || fail "$(cat "$OUT/err")"

step "who talks is on one thread, and two loads come apart"
router_ctl container thread h0c0 0 >/dev/null || fail "h0c0"
router_ctl container thread h0c2 0 >/dev/null || fail "h0c2"
for pair in "h0c0 h0c1" "h0c2 h0c3"; do
	load_use "${pair% *}"
	load_server "${pair#* }"
	load_client "${pair% *}" "${pair#* }" --seconds 100 -q 4 --ud 1 -w 32 -s 1-65536
	load_moves 10 || fail "no traffic from $LOAD"
done
wait_for 60 apart || fail "loads: $(thread_of h0c0) $(thread_of h0c2)"
[[ $(thread_of h0c0) == "$(thread_of h0c1)" && $(thread_of h0c2) == "$(thread_of h0c3)" ]] ||
	fail "$(for c in h0c0 h0c1 h0c2 h0c3; do thread_of $c; done)"

step "loads that check every byte, moved there and back"
moves=0
# not for longer than the loads run: where others keep all CPUs busy, ffctl may wait for a CPU for seconds
# (README, Limits)
until=$((SECONDS + 40))
for ((i = 0; i < 100 && SECONDS < until; i++)); do
	for c in h0c0 h0c2; do
		router_ctl container thread $c $((i & 1)) >/dev/null && ((++moves))
	done
done
echo "$moves moves"
((moves > 10)) || fail "$moves moves"
for c in h0c0 h0c2; do
	load_use $c
	load_moves 10 || fail "$c: no traffic any more"
	load_stop 0
	load_tell
	(($(load_of failures) == 0)) || fail "$c: $(load_of failures) failures"
	load_server_stop 0
done

# keep_moving PID: there and back, for as long as that runs
keep_moving() {
	local to=0 n=0

	while running "$1"; do
		to=$((1 - to))
		router_ctl container thread h0c0 $to >>"$OUT/moves" 2>&1 && ((++n))
	done
	echo "$n moves"
	((n > 10)) || fail "only $n moves: $(tail -1 "$OUT/moves")"
}

before=$(metric thread_moves_total)
for p in verbs_peer verbs_peer_dies; do
	step "$p, between two containers that are moved all the time"
	"$LAB" exec h0c1 -- "$BUILD/tests/system/$p" --server 18700 >"$OUT/server" 2>&1 </dev/null &
	"$LAB" exec h0c0 -- "$BUILD/tests/system/$p" --client h0c1 --port 18700 >"$OUT/client" 2>&1 </dev/null &
	client=$!
	keep_moving $client
	wait $client || fail "client: $(cat "$OUT/client" "$OUT/server")"
	wait || fail "server: $(cat "$OUT/server")"
done

for p in verbs_stress verbs_srq verbs_cq_mod verbs_errors verbs_retry verbs_xrc; do
	step "$p, while it is moved"
	"$LAB" exec h0c0 -- "$BUILD/tests/system/$p" >"$OUT/out" 2>&1 </dev/null &
	job=$!
	while running $job; do
		router_ctl container thread h0c0 $((1 - $(thread_of h0c0))) >/dev/null 2>&1
	done
	wait $job || fail "$p: $(cat "$OUT/out")"
done
echo "$(($(metric thread_moves_total) - before)) moves in all"
(($(metric thread_moves_total) - before > 50)) || fail "hardly any moves"

step "datagrams to a group, from a container of the second thread"
router_ctl container thread h0c0 1 >/dev/null || fail "h0c0"
inside h0c0 "$BUILD/tests/system/verbs_mcast" || fail "verbs_mcast ended with $?"
