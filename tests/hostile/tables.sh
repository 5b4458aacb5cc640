#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# timeout: 600
# tables.sh - one container takes of everything as much as it gets: its quotas, the tables that all share, the
# descriptors that the router may have. Another one of its tenant is served all the same, and when it has
# ended the router has all back.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$TREE/tests/rig/shell/holdings.sh"
. "$TREE/tests/rig/shell/victim.sh"

MEMORY_SLACK=12288 # what so many small pieces were freed from is not all given back
own_lab --containers 2
router=$(<"$FF_LAB/h0/router.pid")

neighbour() {
	timeout 180 "$LAB" exec h0c1 -- "$BUILD/tests/hostile/tables" neighbour >"$OUT/neighbour" 2>&1 ||
		fail "$1: $(cat "$OUT/neighbour")"
}

# What is filled is kept until descriptor 5 is closed.
fill_begin() {
	rm -f "$OUT/go"
	mkfifo "$OUT/go"
	inside h0c0 "$BUILD/tests/hostile/tables" fill <"$OUT/go" >"$OUT/fill" 2>&1 &
	attack=$!
	exec 5>"$OUT/go"
	wait_for 180 full || fail "it does not end: $(cat "$OUT/fill")"
	cat "$OUT/fill"
	echo "descriptors, threads, kB: $(holdings), before $had"
	running $attack || fail "the attack has ended"
}

full() {
	grep -qs full "$OUT/fill" || ended "$attack"
}

fill_end() {
	exec 5>&-
	wait $attack || fail "$(cat "$OUT/fill")"
	running "$router" || fail "the router is gone"
	wait_for 60 as_little "$had" ||
		fail "descriptors, threads, kB: the router has $(holdings), had $had"
	neighbour "behind it"
}

neighbour "before it"
victim_start
victim_gets_on "alone"
had=$(holdings)

step "all quotas"
router_ctl container set h0c0 --max-session 40 --max-qp 500 --max-cq 500 --max-srq 100 --max-mr 1000 \
	--max-pinned 2GB --max-rings 1GB --max-fd 1000 --max-object 8000 >/dev/null ||
	fail "container set"
fill_begin
neighbour "beside it"
victim_gets_on "beside it"
fill_end

# With 600 descriptors the router gives containers a part only, so that ffctl and other tenants are still served.
step "few descriptors"
(ulimit -n 600 && "$LAB" restart router h0) || fail "restart"
router=$(<"$FF_LAB/h0/router.pid")
router_ctl container set h0c0 --max-fd 100000 --max-session 1000 >/dev/null || fail "container set"
neighbour "before it"
had=$(holdings)
fill_begin
router_ctl ping >/dev/null || fail "ffctl is not served"
neighbour "with few descriptors"
fill_end

step "many sessions"
"$LAB" restart router h0 || fail "restart"
router=$(<"$FF_LAB/h0/router.pid")
neighbour "before it"
had=$(holdings)
fill_begin
neighbour "beside them"
fill_end
exit 0
