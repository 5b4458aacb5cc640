#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# timeout: 360
# rs_router.sh - rs_router in a container whose router is killed, twice over.
. "$(dirname "$0")/../rig/shell/lab.sh"
own_lab --containers 1

for lap in 1 2; do
	step "kill $lap"
	rm -f "$OUT/out" # the last one was ready, too
	"$LAB" exec h0c0 -- "$BUILD/tests/system/rs_router" >"$OUT/out" 2>&1 </dev/null &
	job=$!
	wait_for 60 grep -qs '^ready' "$OUT/out" || fail "not ready: $(cat "$OUT/out")"
	"$LAB" kill router h0
	wait_for 30 ended $job || fail "still there: $(cat "$OUT/out")"
	wait $job || fail "$(cat "$OUT/out")"
	"$LAB" restart router h0 || fail "restart"
done
exit 0
