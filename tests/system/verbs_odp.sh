#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# test: netns
# all: hosts system-san
# night: docker
# timeout: 600
# verbs_odp.sh - verbs_odp and verbs_odp_regions in one container and in two (halves.sh); and what an operator sees of it.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$(dirname "$0")/../rig/shell/halves.sh"

both_halves verbs_odp
both_halves verbs_odp_regions

odp() { # COUNTER
	counter "$B" "$1"
}
step "the counters"
(($(odp odp_faults) > 0)) || fail "no page came"
(($(odp odp_fault_ns) > 0)) || fail "and in no time"
(($(odp odp_prefetched) > 0)) || fail "no page was asked for"
exit 0
