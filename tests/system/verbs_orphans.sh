#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# test: netns
# all: docker system-san
# timeout: 360
# verbs_orphans.sh - verbs_orphans while routers are killed and stopped, one after the other, and for good: what it drops
# of registered memory is zeros at any time. The processes that see to that end when nothing is left to watch.
. "$(dirname "$0")/../rig/shell/lab.sh"
own_lab --containers 1

orphans() { # processes that watch what routers of this lab have left
	pgrep -x ffr-orphans | while read -r pid; do
		tr '\0' ' ' <"/proc/$pid/cmdline" | grep -F " $OWN_LAB/" >/dev/null && echo "$pid"
	done
}

alone() { # PID: is it the only such process?
	[[ $(orphans) == "$1" ]]
}

coproc PROGRAM { exec "$LAB" exec h0c0 -- "$BUILD/tests/system/verbs_orphans" 2>&1; }
# shellcheck disable=SC2034 # coproc's
job=$! from=${PROGRAM[0]} to=${PROGRAM[1]}

tell() { # WORD...
	local word answer
	for word in "$@"; do
		echo "$word" >&"$to"
		read -r -t 60 answer <&"$from"
		[[ $answer != "skip "* ]] || skip "${answer#*: }"
		[[ $answer == "$word" ]] || fail "$word: $answer"
	done
}

old_enough() { # a router that dies sooner is not started again (ffr/keeper/parent.c)
	(($(date +%s) - $(stat -c %Y "/proc/$(pgrep -P "$(<"$OWN_LAB/h0/ffr.pid")" -x ffr)") > 3))
}

answers() {
	"$LAB" ffctl h0 -- ping >/dev/null 2>&1
}

stopped() { # as a service manager does
	local first
	first=$(<"$OWN_LAB/h0/ffr.pid")
	kill "$first"
	wait_for 60 ended "$first" || fail "it does not stop"
}

tell open check turns
for round in 1 2 3; do
	step "kill -9 of the router, $round"
	wait_for 60 old_enough || fail "its age"
	pkill -KILL -P "$(<"$OWN_LAB/h0/ffr.pid")" -x ffr
	tell check turns
	wait_for 60 answers || fail "it is not started again"
	tell open check turns
done

step "kill -9 of router, keeper and parent"
first=$(orphans)
"$LAB" kill router h0
tell check turns
alone "$first" || fail "processes: $(orphans), not $first"
"$LAB" restart router h0 || fail "restart"
tell open check turns

step "the service is stopped, and started"
stopped
tell check turns
[[ $(orphans | wc -l) == 2 ]] || fail "processes: $(orphans)"
"$LAB" restart router h0 || fail "start"
tell open check turns

step "the device is closed"
tell close check turns

step "stopped for good, until nothing is mapped any more"
stopped
tell check turns
tell unmap
wait_for 60 alone "" || fail "still there: $(orphans)"
exec {to}>&-
wait $job || fail "it ended with $?"
exit 0
