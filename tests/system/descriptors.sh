#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# test: netns
# timeout: 360
# descriptors.sh - hostile clients pass descriptors that nobody asked for and drop sessions half-way:
# the router has as many open afterwards as before.
. "$(dirname "$0")/../rig/shell/lab.sh"
# a higher limit would be none for what is on its way here
(($(ulimit -Hn) <= 20000)) || ulimit -n 20000
own_lab --containers 1
router=$(<"$OWN_LAB/h0/router.pid")

descriptors() {
	find "/proc/$router/fd" -mindepth 1 | wc -l
}

hostile() {
	timeout 240 "$LAB" exec h0c0 -- "$BUILD/tests/system/raw_proto" descriptors parts \
		>"$OUT/hostile" 2>&1 || fail "$(cat "$OUT/hostile")"
	timeout 240 "$LAB" exec h0c0 -- "$BUILD/tests/system/raw_idle" silent >"$OUT/hostile" 2>&1 ||
		fail "$(cat "$OUT/hostile")"
}

step "once, for what the router keeps open from then on"
hostile
before=$(descriptors)
as_before() {
	(($(descriptors) <= before))
}
step "and again"
hostile
wait_for 60 as_before || fail "$(descriptors) descriptors are open, $before were"
running "$router" || fail "the router is gone"
