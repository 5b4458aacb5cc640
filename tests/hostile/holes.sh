#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# timeout: 480
# holes.sh - the processes of one container map a file that the router has mapped as well 260,000 times, and punch holes
# in it all the time, so that whoever touches, maps or unmaps the file waits for the kernel. It is every file that they can
# have: segments of rings, shadow pages, a file of their own. Another container is served during the holes. The router touches
# rings only when nobody can punch holes there, so it never waits for rings.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$TREE/tests/rig/shell/victim.sh"

PROCESSES=4

own_lab --containers 2
for kind in rings calls locks file regs shadow places; do
	step "$kind"
	beside_victim "$BUILD/tests/hostile/holes" "$kind" $PROCESSES || fail "$kind"
	[[ $kind == @(rings|calls|locks) ]] || (($(counter h0c0 stalled_ns) > 0)) || fail "the router was never kept waiting: the attack does nothing"
	"$LAB" restart router h0 || fail "restart" # which knows of no debt
done
exit 0
