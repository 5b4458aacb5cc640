#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# timeout: 480
# crowd.sh - one container has very many of what costs the control thread time: sessions that make calls, rdma_cm ids that
# look for an address, XRC domains. The control calls of another container are served all the same.
. "$(dirname "$0")/../rig/shell/lab.sh"

ATTEMPTS=8 # the machine has other work: the best of so many counts

own_lab --containers 2
. "$TREE/tests/rig/shell/victim.sh"

# 5 ms is the promise, of a machine that has nothing else to do. Here the victim waits for a CPU, too: half of its calls count.
MAX_CALL_US=25000

well_served() {
	((call50 <= MAX_CALL_US && p99 <= 20000))
}

measure "warming up"
measure "alone"
for kind in maps lookups files hellos; do
	step "$kind"
	attack_begin crowd "$kind"
	for ((i = 0; i < ATTEMPTS; i++)); do
		measure "beside it"
		well_served && break
	done
	attack_goes_on
	well_served || fail "$kind: half of the calls take more than $call50 us, data p99 $p99 us"
	attack_end
	measure "behind it" # sockets with unread requests are closed meanwhile (ffr/ctl/discard.h)
done
exit 0
