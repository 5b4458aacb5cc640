#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# dry_run.sh - ffctl --dry-run says what a change would say, by a router and by the orchestrator itself, and nothing has
# changed.
# test: netns
# all: system-san
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$(dirname "$0")/../rig/shell/own_router.sh"

op() { # as an operator
	ctl --orchestrator "unix:$D/ffo.sock" "$@"
}

connected() { # to the orchestrator
	ctl container list >/dev/null 2>&1
}

all() {
	ctl container list --all
	ctl policy list
	ctl tenant list
	ls "$D/run/containers"
	ctl --json container show web
}

# tries WORDS CMD...: a change that would succeed. WORDS are in its output.
tries() {
	local words=$1
	shift
	all >"$OUT/before" 2>/dev/null
	"$@" --dry-run >"$OUT/out" 2>"$OUT/err" || fail "$*: status $?: $(<"$OUT/err")"
	grep -qx 'ffctl: dry run: nothing has changed' "$OUT/err" || fail "$*: $(<"$OUT/err")"
	grep -qF -e "$words" "$OUT/out" || [[ -z $words ]] || fail "$*: $(<"$OUT/out")"
	all >"$OUT/after" 2>/dev/null
	diff <(grep -v known_s "$OUT/before") <(grep -v known_s "$OUT/after") || fail "$*: it has changed"
}

# refused STATUS WORDS CMD...: one that would not.
refused() {
	local status=$1 words=$2
	shift 2
	"$@" --dry-run >"$OUT/out" 2>"$OUT/err"
	(($? == status)) || fail "$*: not status $status: $(<"$OUT/err")"
	grep -qF -e "$words" "$OUT/err" || fail "$*: $(<"$OUT/err")"
}

"$BUILD/bin/ffo" --store :memory: --listen "unix:$D/ffo.sock" 2>"$D/ffo.log" &
start "orchestrator = \"unix:$D/ffo.sock\""
wait_for 30 connected || fail "no orchestrator: $(cat "$D/log" "$D/ffo.log")"

step "add"
tries 'web 10.77.0.2' ctl container add web --tenant red
ctl container add web --tenant red >/dev/null || fail "add"
refused 5 'there is a container "web" already' ctl container add web
tries 'web 10.77.0.2' ctl container add web --tenant red --exist-ok
refused 1 '10.77.0.2 is in use' ctl container add db --tenant red --ip 10.77.0.2

for as in ctl op; do
	step "changes of what is there, by $as"
	tries 'web 10.77.0.9' "$as" container set web --ip 10.77.0.9
	tries 'tx-rate: none -> 1Gbit' "$as" container set web --rate 1Gbit --mode spin
	grep -qx 'mode: adaptive -> spin' "$OUT/out" || fail "$(<"$OUT/out")"
	[[ $("$as" --json container set web --tx-rate 1Gbit --dry-run | python3 -c 'import json, sys; print(json.load(sys.stdin)["changed"])') == \
		"{'tx_rate': {'from': None, 'to': 125000000}}" ]] || fail "--json"
	refused 4 'no container "db' "$as" container rm db
	tries '' "$as" container rm web
	tries 'web would be on hx' "$as" container migrate web --to hx
	refused 4 'hy' "$as" container migrate web --to hy
	tries 'web' "$as" container claim web
	tries '' "$as" policy allow red red/web
	refused 4 'no such rule' "$as" policy rm red red/web
	tries '' "$as" tenant set red --max-qp 5
	refused 4 'tenant red has no limits' "$as" tenant rm red
done
[[ $(ctl --json policy deny red red/web --dry-run | python3 -c 'import json, sys; print(json.load(sys.stdin))') == \
	"{'dry_run': True}" ]] || fail "--json"
ctl tenant set blue --max-qp 5 2>/dev/null || fail "tenant set"
tries '' ctl tenant rm blue
ctl policy deny red red/web || fail "policy"
tries '' op policy rm red red/web

step "what is no change"
"$BUILD/bin/ffctl" --admin "$D/admin.sock" container list --dry-run 2>"$OUT/err" && fail "a list"
grep -q 'unknown option --dry-run' "$OUT/err" || fail "$(<"$OUT/err")"
ctl container rm web || fail "rm"
exit 0
