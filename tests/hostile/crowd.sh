#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# timeout: 480
# crowd.sh - one container has very many of what costs the control thread time: sessions that make calls, rdma_cm ids that
# look for an address, XRC domains. The data and the control calls of another container go on. (Who is served before whom
# is looked at in calls_long.c.)
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$TREE/tests/rig/shell/victim.sh"

own_lab --containers 2
victim_start
victim_gets_on "alone"
for kind in maps lookups files hellos; do
	step "$kind"
	attack_begin crowd "$kind"
	victim_gets_on "beside it"
	attack_goes_on
	attack_end
	victim_gets_on "behind it" # sockets with unread requests are closed meanwhile (ffr/ctl/discard.h)
done
exit 0
