#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# events.sh - ffctl events tells of containers that come and go, of programs that open and close the device, of a limit that
# is reached for the first time, and of an orchestrator that is lost and back.
# test: netns
# all: system-san
. "$(dirname "$0")/../rig/shell/lab.sh"
own_lab --containers 1

# told REGEX: a line of the last events.
told() {
	router_ctl events -n 1000 | grep >/dev/null -E -e "$1"
}

step "containers"
router_ctl container add web --tenant red >/dev/null || fail "add"
router_ctl container rm web || fail "rm"
told ' attached +web +tenant red, epoch 1$' || fail "$(router_ctl events)"
told ' detached +web +an operator has removed it$' || fail "$(router_ctl events)"
told ' connected +- +orchestrator ' || fail "$(router_ctl events)"
[[ $(router_ctl events -n 2 | awk '{ print $3, $4 }' | tr '\n' ' ') == 'attached web detached web ' ]] ||
	fail "$(router_ctl events -n 2)"
[[ $(router_ctl --json events -n 1 | python3 -c 'import json, sys
(e,) = json.load(sys.stdin)
print(e["event"], e["container"], e["time_ms"] > 1.6e12)') == 'detached web True' ]] || fail "$(router_ctl --json events -n 1)"
router_ctl events -n many 2>"$OUT/error" && fail "-n many"
grep -q '"many" is not 0..1000000' "$OUT/error" || fail "$(<"$OUT/error")"

step "programs and a limit, as they happen"
"$BUILD/bin/ffctl" --admin "$FF_LAB/h0/admin.sock" events --follow -n 0 >"$OUT/follow" &
follow=$!
"$BUILD/bin/ffctl" --admin "$FF_LAB/h0/admin.sock" --json events --follow -n 1 >"$OUT/json" &
wait_for 30 test -s "$OUT/json" || fail "no event"
inside h0c0 ibv_devinfo >/dev/null || fail "ibv_devinfo"
router_ctl container set h0c0 --max-qp 2 || fail "container set"
inside h0c0 "$BUILD/tests/system/limits" qp 100 </dev/null >/dev/null || fail "limits"
inside h0c0 "$BUILD/tests/system/limits" qp 100 </dev/null >/dev/null || fail "limits"
router_ctl container add end >/dev/null || fail "add"
ended_line() {
	grep -q ' attached  *end ' "$OUT/follow" && grep -q '"attached".*"end"' "$OUT/json"
}
wait_for 30 ended_line || fail "$(<"$OUT/follow")"
grep -qE ' opened +h0c0 +session [0-9]+ of pid [0-9]+ \(ibv_devinfo\)$' "$OUT/follow" || fail "$(<"$OUT/follow")"
grep -qE ' closed +h0c0 +session [0-9]+ of pid [0-9]+ \(ibv_devinfo\)$' "$OUT/follow" || fail "$(<"$OUT/follow")"
[[ $(grep -c ' limit  *h0c0  *max_qp of the container is used up: 2 of 2, and 1 more were asked for$' "$OUT/follow") == 1 ]] ||
	fail "$(<"$OUT/follow")"
python3 -c 'import json, sys
last = None
for line in sys.stdin:
	number = json.loads(line)["number"]
	assert last in (None, number - 1), line
	last = number' <"$OUT/json" || fail "$(<"$OUT/json")"
running $follow || fail "it has ended"

step "an orchestrator that is lost, and back"
D=$OUT/router
mkdir "$D"
printf '%s\n' "orchestrator = \"unix:$D/ffo.sock\"" 'hostname = "hx"' >"$D/ffr.conf"
start_ffo() {
	"$BUILD/bin/ffo" --store :memory: --listen "unix:$D/ffo.sock" 2>>"$D/ffo.log" &
	FFO=$!
}
last() { # REGEX: of the last event
	"$BUILD/bin/ffctl" --admin "$D/admin.sock" events -n 1 2>/dev/null | grep >/dev/null -E "$1"
}
start_ffo
"$BUILD/bin/ffr" --config "$D/ffr.conf" --socket-dir "$D/run" --admin "$D/admin.sock" 2>"$D/log" &
router=$!
wait_for 30 last ' connected +- +orchestrator unix:' || fail "$(cat "$D/log" "$D/ffo.log")"
kill $FFO
wait_for 30 last ' disconnected +- +orchestrator unix:' || fail "$(cat "$D/log")"
start_ffo
wait_for 30 last ' connected +- +orchestrator unix:' || fail "$(cat "$D/log")"
"$BUILD/bin/ffctl" --admin "$D/admin.sock" events --follow >"$OUT/out" 2>"$OUT/error" &
follow=$!
wait_for 30 test -s "$OUT/out" || fail "no events"
kill $router
wait $follow && fail "status 0 though the router has gone"
grep -q 'the router closed the connection' "$OUT/error" || fail "$(<"$OUT/error")"
kill $FFO
exit 0
