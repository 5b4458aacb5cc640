#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# trace.sh - ffctl trace: the last operations of a program's queue pair, once and as they come.
# test: netns
# all: hosts docker system-san
. "$(dirname "$0")/../rig/shell/lab.sh"

ctl() { # CONTAINER ARGS...: ffctl on its host
	local c=$1
	shift
	"$LAB" ffctl "$(<"$FF_LAB/$c/host")" -- "$@"
}

traffic send_ops ib_send_lat -F -s 64 -D 30

step "the last operations"
ten() { # the first call switches tracing on; on a busy machine few operations end in the second that it waits
	ctl "$B" trace "$B" -n 10 >"$OUT/trace" || fail "trace"
	(($(wc -l <"$OUT/trace") == 11))
}
wait_for 60 ten || fail "not 10: $(<"$OUT/trace")"
row='^[0-9]+\.[0-9]{6} +0x[0-9a-f]{6} (send|receive) +64 0x[0-9a-f]{6} +[^ ]+ +[^ ]+ +success$'
(($(grep -cE "$row" "$OUT/trace") == 10)) || fail "rows: $(<"$OUT/trace")"
grep -qE ' send .* [0-9.]+[num]s +success$' "$OUT/trace" || fail "no time: $(<"$OUT/trace")"
sort -c -n -s "$OUT/trace" 2>"$OUT/order" || fail "order: $(<"$OUT/order")"

step "of one queue pair, as JSON"
twenty() {
	ctl "$B" --json trace "$B" --qp "$(awk 'NR == 2 { print $2 }' "$OUT/trace")" >"$OUT/json"
	(($(grep -o '"seq"' "$OUT/json" | wc -l) == 20))
}
wait_for 60 twenty || fail "not 20: $(<"$OUT/json")"
python3 - "$OUT/json" <<-'PY' || fail "JSON: $(<"$OUT/json")"
	import json, sys
	rows = json.load(open(sys.argv[1]))
	assert len(rows) == 20 and len({r["qp"] for r in rows}) == 1
	for r in rows:
	    assert r["operation"] in ("send", "receive") and r["status"] == "success", r
	    assert r["operation"] == "receive" or 0 < r["fetched_ns"] <= r["started_ns"] <= r["done_ns"], r
PY
ctl "$B" trace "$B" --qp 1 >"$OUT/none" || fail "a queue pair that is not there"
(($(wc -l <"$OUT/none") == 1)) || fail "rows of nobody: $(<"$OUT/none")"

step "as they come"
"$BUILD/bin/ffctl" --admin "$FF_LAB/$(<"$FF_LAB/$B/host")/admin.sock" trace "$B" --follow \
	>"$OUT/follow" &
follow=$!
many() {
	(($(wc -l <"$OUT/follow") > 200))
}
wait_for 60 many || fail "$(wc -l <"$OUT/follow") rows"
kill $follow
wait $follow
[[ -z $(awk 'NR > 1 && $1 < last { print } NR > 1 { last = $1 }' "$OUT/follow" | head -n 3) ]] ||
	fail "order while it follows"
ctl "$B" trace nobody 2>/dev/null && fail "a container that is not there"
kill $CLIENT_JOB "$SERVER_JOB"
exit 0
