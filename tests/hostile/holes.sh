#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# timeout: 480
# holes.sh - the processes of one container map a file that the router has mapped as well 260,000 times, and punch holes
# in it all the time, so that whoever touches, maps or unmaps the file waits for the kernel. It is every file that they can
# have: segments of rings, shadow pages, a file of their own. Another container is served as beside a program that uses
# as many CPUs.
. "$(dirname "$0")/../rig/shell/lab.sh"

PROCESSES=4
ATTEMPTS=8 # the machine has other work: the best of so many counts

own_lab --containers 2
. "$TREE/tests/rig/shell/victim.sh"

# A hole takes some 0.2 s. Before the router knew better, one call in ten took longer than that.
well_served() {
	((call90 <= 5 * burn90 + 20000 && p99 <= 5 * burn99 + 2000))
}

measure "warming up"
measure "alone"
attack_begin holes burn $PROCESSES
measure "beside a program" 3000
burn90=$call90 burn99=$p99
attack_end
for kind in rings calls file regs shadow places; do
	step "$kind"
	attack_begin holes "$kind" $PROCESSES
	for ((i = 0; i < ATTEMPTS; i++)); do
		measure "beside it" 2000
		well_served && break
	done
	attack_goes_on
	well_served || fail "$kind: one call in ten takes more than $call90 us ($burn90), data p99 $p99 us ($burn99)"
	attack_end
	tail -n 1 "$attack_log"
	measure "behind it"
done
stalled=$(router_ctl --json stats h0c0 |
	python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["counters"]["stalled_ns"])')
((stalled > 0)) || fail "the router was never kept waiting: the attack does nothing"
exit 0
