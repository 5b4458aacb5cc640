#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# all: netns
# night: docker
# timeout: 300
# lab_hosts.sh - a lab of two hosts: containers of one reach those of the other, links are cut, healed
# and slowed down, the orchestrator dies and comes back, containers stop and start, and nothing stays.
. "$(dirname "$0")/../rig/shell/lab.sh"

# connects CONTAINER: to h0c0 over TCP, where a server waits for each.
connects() {
	inside "$1" iperf3 -c h0c0 -n 1K --connect-timeout 500 >"$OUT/client" 2>&1
}

unreached() {
	! connects "$1"
}

serve() {
	"$LAB" exec h0c0 -- iperf3 -s >"$OUT/server" 2>&1 </dev/null &
	SERVER_JOB=$!
	wait_for 60 listens h0c0 5201 || fail "iperf3: $(cat "$OUT/server")"
}

state() { # NAME
	"$LAB" ps | awk -v n="$1" '$1 == n { print $5 }'
}

host_reaches() { # HOST ADDRESS
	nsenter --net="/proc/$(<"$FF_LAB/$1/ffr.pid")/ns/net" ping -q -c 1 -W 1 "$2" >/dev/null
}

# The shortest round trip from h1 to h0 in microseconds, by the hosts' own way.
round_trip() {
	nsenter --net="/proc/$(<"$FF_LAB/h1/ffr.pid")/ns/net" ping -q -i 0.02 -c 10 192.168.200.10 |
		awk -F '[ /]' '/^rtt/ { print int($8 * 1000) }'
}

step "two hosts, one network"
own_lab --hosts 2 --containers 2
for c in h0c0 h0c1 h1c0 h1c1; do
	[[ $(inside $c hostname) == "$c" && $("$LAB" host $c) == "${c%c*}" ]] || fail "$c"
	grep -q "$("$LAB" ip $c)/" <<<"$(inside $c ip -br addr)" || fail "$c has another address"
	"$LAB" ffctl "${c%c*}" -- container show $c >/dev/null || fail "${c%c*} does not know $c"
	for name in h0c0 h0c1 h1c0 h1c1; do
		inside $c grep -qs "^$("$LAB" ip $name)[[:space:]].*$name" /etc/hosts ||
			fail "$name in /etc/hosts of $c"
	done
done
serve
for c in h0c1 h1c0 h1c1; do
	connects $c || fail "$c does not reach h0c0: $(cat "$OUT/client")"
done

step "h1 is cut off, and back"
"$LAB" partition h1 || fail "partition"
grep -q '^h1 .*(cut off)' <<<"$("$LAB" ps)" || fail "lab ps does not tell"
unreached h1c0 || fail "h1c0 reaches h0c0"
connects h0c1 || fail "h0c1 does not reach h0c0"
"$LAB" heal h1 || fail "heal"
wait_for 60 connects h1c0 || fail "h1c0 does not reach h0c0: $(cat "$OUT/client")"

step "h0 and h1 are cut off from each other, not from the orchestrator"
"$LAB" partition h0 h1 || fail "partition"
unreached h1c0 || fail "h1c0 reaches h0c0"
for h in h0 h1; do
	host_reaches $h 192.168.200.2 || fail "$h does not reach the orchestrator"
done
! host_reaches h0 192.168.200.11 || fail "h0 reaches h1"
"$LAB" heal h0 h1 || fail "heal"
wait_for 60 connects h1c0 || fail "h1c0 does not reach h0c0: $(cat "$OUT/client")"

step "h1 is slow"
"$LAB" delay h1 20ms loss 1% || fail "delay"
# The wire may lose the SYN, and the kernel sends the next one after 1 s, which is more than connects waits.
wait_for 60 connects h1c0 || fail "h1c0 does not reach h0c0: $(cat "$OUT/client")"
us=$(round_trip)
((us >= 40000)) || fail "a round trip of $us us"
"$LAB" delay h1 off || fail "delay off"
is_quick() {
	((us = $(round_trip), us < 40000))
}
wait_for 60 is_quick || fail "still a round trip of $us us"

step "the orchestrator dies and is back"
"$LAB" kill orchestrator || fail "kill"
[[ $(state ffo) == stopped && $(state h0) == running && $(state h1) == running ]] || "$LAB" ps
"$LAB" restart orchestrator || fail "restart"
known() {
	"$LAB" ffctl h1 -- container show h1c1 >/dev/null 2>&1
}
wait_for 60 known || fail "h1 does not find it: $("$LAB" logs h1)"

step "a container stops and starts"
"$LAB" stop h0c0 || fail "stop"
wait "$SERVER_JOB"
[[ $(state h0c0) == stopped ]] || fail "it runs"
"$LAB" start h0c0 || fail "start"
serve
connects h1c1 || fail "h1c1 does not reach h0c0: $(cat "$OUT/client")"

step "down"
kill "$SERVER_JOB"
wait "$SERVER_JOB"
"$LAB" down || fail "down"
[[ -z $(left "$OWN_LAB") ]] || fail "down left: $(left "$OWN_LAB")"
OWN_LAB=
exit 0
