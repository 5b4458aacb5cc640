#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# all: hosts
# timeout: 600
# fence.sh - a host that is cut off from everybody takes the device from its containers after fence_after, and gives it back with
# the orchestrator; one that has lost only the orchestrator does not.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$(dirname "$0")/../rig/shell/load.sh"
own_lab --hosts 2 --containers 1

has_device() { # CONTAINER
	timeout 30 "$LAB" exec "$1" -- ibv_devinfo 2>/dev/null | grep >/dev/null 'hca_id:.*ff0'
}

has_none() {
	! has_device "$1"
}

logged() { # HOST WORDS
	"$LAB" logs "$1" | grep >/dev/null "$2"
}

seconds_since() { # START
	echo $((SECONDS - $1))
}

for h in h0 h1; do
	echo 'fence_after = 3' >>"$FF_LAB/$h/ffr.conf"
	"$LAB" restart router $h || fail "restart $h"
done
step "the hosts have a connection, and h1 loses the orchestrator only"
pair h0c0 h1c0 ibv_rc_pingpong -g 0 -n 100
"$LAB" partition h1 ffo
wait_for 90 host_is h1 down || fail "h1 is not down"
wait_for 90 logged h1 'warning: orchestrator ' || fail "h1 does not notice"
sleep 6 # twice fence_after: nothing is to happen
has_device h1c0 || fail "h1c0 has lost its device"
logged h1 'cut off' && fail "h1 is fenced"
"$LAB" heal h1 ffo
step "h1 is cut off from everybody"
"$LAB" exec h1c0 -- ibv_asyncwatch >"$OUT/watch" 2>&1 </dev/null &
wait_for 60 grep -qs 'async event FD' "$OUT/watch" || fail "ibv_asyncwatch: $(cat "$OUT/watch")"
"$LAB" partition h1
start=$SECONDS
wait_for 120 logged h1 'cut off' || fail "h1 is not fenced"
echo "fenced $(seconds_since $start) s after the cut"
wait_for 30 has_none h1c0 || fail "h1c0 has a device"
said=$(timeout 30 "$LAB" exec h1c0 -- ibv_devinfo 2>&1)
grep >/dev/null 'its host is cut off' <<<"$said" || fail "the program is not told why: $said"
said=$("$LAB" ffctl h1 -- doctor --cdi "$OUT/none" --daemon-json "$OUT/none")
grep >/dev/null '^PROBLEM.*orchestrator: .*containers have no device' <<<"$said" || fail "the doctor does not tell: $said"
wait_for 30 grep -qs 'IBV_EVENT_DEVICE_FATAL\|event_type .*(8)' "$OUT/watch" ||
	fail "no fatal event: $(cat "$OUT/watch")"
step "it is back"
"$LAB" heal h1
wait_for 90 has_device h1c0 || fail "h1c0 has no device"
exit 0
