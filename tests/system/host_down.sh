#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# host_down.sh - ffctl container list --all says of containers of a host that is down when that host was last seen, and not
# that no program uses them. ffctl host rm forgets a host that is gone for good.
# test: netns
# all: system-san
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$(dirname "$0")/../rig/shell/own_router.sh"

op() { # as an operator, of the orchestrator itself
	ctl --orchestrator "unix:$D/ffo.sock" "$@"
}

connected() { # to the orchestrator
	ctl container list >/dev/null 2>&1
}

# The cell ACTIVE of container NAME, the last of its line.
active() { # NAME
	op container list --all | sed -n "s/^$1 .* [0-9.]*  *[a-z]*  *[0-9]*  *h[xy]  *1  *//p"
}

of_json() { # NAME: what the list has of it, but its usual fields
	op --json container list --all | python3 -c 'import json, sys
c = next(c for c in json.load(sys.stdin) if c["name"] == sys.argv[1])
print(c["active"], c["host_up"], type(c.get("host_last_seen")).__name__)' "$1"
}

"$BUILD/bin/ffo" --store :memory: --listen "unix:$D/ffo.sock" 2>"$D/ffo.log" &
start "orchestrator = \"unix:$D/ffo.sock\""
wait_for 30 connected || fail "no orchestrator: $(cat "$D/log" "$D/ffo.log")"
ctl container add web --ip 10.77.0.9 >/dev/null || fail "add"

step "its host is up"
[[ $(active web) == no ]] || fail "$(op container list --all)"
[[ $(of_json web) == "False True NoneType" ]] || fail "$(of_json web)"

step "its host is down"
stop
seen=$(op host list | sed -n 's/^hx  *down  *-  *//p')
[[ $seen == 20*:* ]] || fail "$(op host list)"
[[ $(active web) == "host down, last seen $seen" ]] || fail "$(op container list --all)"
[[ $(of_json web) == "None False int" ]] || fail "$(of_json web)"
[[ $(op container list --all -q) == web ]] || fail "-q"

step "the host is gone for good"
printf '%s\n' "orchestrator = \"unix:$D/ffo.sock\"" 'hostname = "hy"' >"$D/ffr.conf"
start
wait_for 30 connected || fail "no orchestrator: $(cat "$D/log" "$D/ffo.log")"
doctor=$(ctl doctor)
grep -q '^PROBLEM  host hx: ' <<<"$doctor" || fail "$doctor"
ctl host rm hx 2>"$D/said" && fail "its container has no host any more"
grep -q 'hx has containers, web: move or remove them first' "$D/said" || fail "$(cat "$D/said")"
op container rm web || fail "container rm"
ctl host rm hy 2>"$D/said" && fail "a host that is up was removed"
grep -q 'hy is up' "$D/said" || fail "$(cat "$D/said")"
ctl host rm hx --dry-run || fail "--dry-run"
grep -q '^hx ' <<<"$(ctl host list)" || fail "--dry-run removed it"
ctl host rm hx || fail "host rm"
[[ $(ctl --json host list | grep -c '"name"') == 1 ]] || fail "$(ctl host list)"
doctor=$(ctl doctor)
grep -q '^ok *orchestrator: ' <<<"$doctor" || fail "$doctor"
! grep 'host hx' <<<"$doctor" || fail "the doctor looks for a host that was removed"
ctl host rm hx 2>"$D/said"
[[ $? == 4 ]] || fail "no such host: $(cat "$D/said")"
ctl host rm hx --ignore || fail "--ignore"
exit 0
