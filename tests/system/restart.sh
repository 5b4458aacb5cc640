#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# test: netns
# timeout: 360
# restart.sh - programs whose router is killed, and restarted in order, and which do not notice: verbs_restart.c in two
# containers. docs/internals/restart.md has the theory.
. "$(dirname "$0")/../rig/shell/lab.sh"
own_lab --containers 2
program=$BUILD/tests/system/verbs_restart

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

restart() { # KILL or USR2
	local pid
	wait_for 60 old_enough || fail "its age"
	pid=$(router_pid)
	case $1 in
	KILL) kill -KILL "$pid" ;;
	*) kill "-$1" "$(first)" ;;
	esac
	wait_for 60 is_other "$pid" || fail "no other router: $(tail -n 5 "$OWN_LAB/h0/ffr.log")"
}

# ready N JOB: the program's halves are at restart N, or the client has ended.
ready() {
	ended "$2" || grep -qs "^ready $1\$" "$OUT/client"
}

holds() { # SIGNAL... one for each restart
	local n=0 server client
	rm -f "$OUT"/[0-9]* "$OUT/client"
	((++PORT))
	"$LAB" exec h0c0 -- env "RESTART=$OUT" "$program" --server $PORT >"$OUT/server" 2>&1 </dev/null &
	server=$!
	"$LAB" exec h0c1 -- env "RESTART=$OUT" "$program" --client h0c0 --port $PORT >"$OUT/client" 2>&1 </dev/null &
	client=$!
	for signal; do
		((++n))
		wait_for 60 ready $n $client || fail "not ready"
		! ended $client || break
		restart "$signal"
		touch "$OUT/$n"
	done
	wait_for 120 ended $client || fail "still there: $(cat "$OUT/client" "$OUT/server")"
	wait $client || fail "client: $(cat "$OUT/client" "$OUT/server")"
	wait $server || fail "server: $(cat "$OUT/server")"
}

step "idle connections"
holds KILL USR2 USR2 KILL
exit 0
