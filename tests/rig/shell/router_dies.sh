# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# router_dies.sh - a program of tests/system in a container whose router is killed, twice over. The program prints "ready"
# when the router may die, and ends by itself after that.

router_dies() { # PROGRAM
	local lap job
	for lap in 1 2; do
		step "kill $lap"
		rm -f "$OUT/out" # the last one was ready, too
		"$LAB" exec h0c0 -- "$BUILD/tests/system/$1" >"$OUT/out" 2>&1 </dev/null &
		job=$!
		wait_for 60 grep -qs '^ready' "$OUT/out" || fail "not ready: $(cat "$OUT/out")"
		"$LAB" kill router h0
		wait_for 30 ended $job || fail "still there: $(cat "$OUT/out")"
		wait $job || fail "$(cat "$OUT/out")"
		"$LAB" restart router h0 || fail "restart"
	done
}
