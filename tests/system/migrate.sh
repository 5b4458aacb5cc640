#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# all: netns docker
# timeout: 360
# migrate.sh - a container moves to another host and back with its address: it is refused while programs
# run in it, its old host forgets it, and where it runs twice the place without the claim has no device.
. "$(dirname "$0")/../rig/shell/lab.sh"
own_lab --hosts 2 --containers 2

has_device() { # CONTAINER
	timeout 30 "$LAB" exec "$1" -- ibv_devinfo 2>/dev/null | grep >/dev/null 'hca_id:.*ff0'
}

has_none() {
	! has_device "$1"
}

show() { # HOST WORD: of h0c1
	"$LAB" ffctl "$1" -- container show h0c1 2>"$OUT/show" | awk -v w="$2" '$1 == w { print $2 }'
}

# Does the orchestrator know that programs run in it?
is_active() {
	[[ $("$LAB" ffctl h1 -- container list --all | awk '$1 == "h0c1" { print $NF }') == yes ]]
}

# RDMA with its neighbour there, and TCP from either host: refused by itself, at its own port 1.
works_on() { # HOST
	local peer=${1}c0
	has_device h0c1 || fail "no device on $1"
	pair h0c1 "$peer" ibv_rc_pingpong -g 0 -n 200 -c
	pair "$peer" h0c1 ib_write_bw -F -n 500
	bandwidth 500 65536
	for peer in h0c0 h1c0; do
		inside $peer timeout 5 bash -c ': <>/dev/tcp/h0c1/1' 2>"$OUT/tcp"
		grep -q refused "$OUT/tcp" || fail "$peer does not reach $ip: $(cat "$OUT/tcp")"
	done
}

ip=$("$LAB" ip h0c1)
epoch=$(show h0 epoch)
from=h0
for to in h1 h0 h1; do
	step "$from to $to"
	"$LAB" migrate h0c1 $to || fail "migrate"
	[[ $("$LAB" host h0c1) == "$to" && $("$LAB" ip h0c1) == "$ip" ]] || fail "$("$LAB" ps)"
	grep -q "$ip/" <<<"$(inside h0c1 ip -br addr)" || fail "it has another address inside"
	[[ $(show $to addresses) == "$ip" ]] || fail "$to: $(show $to addresses), not $ip"
	[[ -z $(show $from name) ]] || fail "$from still has it"
	(($(show $to epoch) == ++epoch)) || fail "epoch $(show $to epoch), not $epoch"
	works_on $to
	from=$to
done

step "it is in use"
"$LAB" exec h0c1 -- ibv_asyncwatch >"$OUT/watch" 2>&1 </dev/null &
wait_for 60 grep -qs 'async event FD' "$OUT/watch" || fail "ibv_asyncwatch: $(cat "$OUT/watch")"
wait_for 30 is_active || fail "nobody knows: $("$LAB" ffctl h1 -- container list --all)"
"$LAB" ffctl h0 -- container claim h0c1 >"$OUT/claim" 2>&1 && fail "h0 could claim it"
grep -q 'in use' "$OUT/claim" || fail "$(cat "$OUT/claim")"
has_device h0c1 || fail "it lost its device"

step "twice at once"
"$LAB" ffctl h0 -- container claim h0c1 --force >"$OUT/claim" 2>&1 || fail "$(cat "$OUT/claim")"
wait_for 30 grep -qs 'IBV_EVENT_DEVICE_FATAL\|event_type .*(8)' "$OUT/watch" ||
	fail "no fatal event: $(cat "$OUT/watch")"
"$LAB" twin h0c1 h0 || fail "twin"
has_device h0c1b || fail "the one with the claim has no device"
wait_for 30 has_none h0c1 || fail "the one without has a device"
"$LAB" stop h0c1b || fail "stop"
exit 0
