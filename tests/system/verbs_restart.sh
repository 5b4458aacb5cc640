#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# test: netns
# timeout: 360
# verbs_restart.sh - programs whose router is killed, and restarted in order, and which do not notice: verbs_restart.c in two
# containers. docs/internals/restart.md has the theory.
. "$(dirname "$0")/../rig/shell/lab.sh"
own_lab --containers 2
program=$BUILD/tests/system/verbs_restart
chmod o+x "$OUT"

first() {
	cat "$OWN_LAB/h0/ffr.pid"
}

router_pid() {
	pgrep -P "$(first)" -x ffr
}

old_enough() { # a router that dies sooner is not started again (ffr/keeper/parent.c)
	(($(date +%s) - $(stat -c %Y "/proc/$(router_pid)") > 3))
}

is_other() { # PID: does another router run, and answer?
	local pid
	pid=$(router_pid) && [[ $pid != "$1" ]] && "$LAB" ffctl h0 -- ping >/dev/null 2>&1
}

halves() { # how many processes the serving program has
	pgrep -fc "verbs_restart --server $PORT"
}

server_died() { # NUMBER: are there fewer than before?
	(($(halves) < $1))
}

# restart CASE NUMBER: of case `dies` the serving half ends while there is no router. Kills and orders take turns.
restart() {
	local pid num
	wait_for 60 old_enough || fail "its age"
	pid=$(router_pid)
	if [[ $1 == dies ]]; then
		num=$(halves)
		kill -STOP "$(first)"
		kill -KILL "$pid"
		touch "$OUT/$1.dies"
		wait_for 60 server_died "$num" || fail "the server lives on"
		kill -CONT "$(first)"
	elif (($2 % 2)); then
		kill -KILL "$pid"
	else
		kill -USR2 "$(first)"
	fi
	wait_for 60 is_other "$pid" || fail "no other router: $(tail -n 5 "$OWN_LAB/h0/ffr.log")"
	touch "$OUT/$1.$2"
}

# next LINES: the client has printed more lines than that, or has ended.
next() {
	ended "$client" || (($(grep -c '^ready' "$OUT/client") > $1))
}

step "connections that are idle, and traffic"
"$LAB" exec h0c0 -- env "RESTART=$OUT" "$program" --server $PORT >"$OUT/server" 2>&1 </dev/null &
server=$!
"$LAB" exec h0c1 -- env "RESTART=$OUT" "$program" --client h0c0 --port $PORT >"$OUT/client" 2>&1 </dev/null &
client=$!
for ((n = 0; ; n++)); do
	wait_for 60 next "$n" || fail "not ready: $(cat "$OUT/client" "$OUT/server")"
	! ended "$client" || break
	# shellcheck disable=SC2046
	restart $(grep '^ready' "$OUT/client" | tail -n 1 | cut -d ' ' -f 2,3)
done
wait "$client" || fail "client: $(cat "$OUT/client" "$OUT/server" "$OWN_LAB/h0/ffr.log")"
wait "$server" || fail "server: $(cat "$OUT/server")"
cat "$OUT/client"

step "the log tells of each session that was not restored, and of no other"
grep 'does not outlive the restart' "$OWN_LAB/h0/ffr.log"
(($(grep -c 'does not outlive the restart: a QP of it is, or was, in a multicast group' "$OWN_LAB/h0/ffr.log") == 1)) || fail "the group's"
(($(grep -c 'does not outlive the restart: its process has ended' "$OWN_LAB/h0/ffr.log") == 1)) || fail "the dead one's"
(($(grep -c 'does not outlive the restart' "$OWN_LAB/h0/ffr.log") == 2)) || fail "more"
exit 0
