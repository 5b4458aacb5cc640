#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# all: netns
# night: netns hosts docker system-san
# timeout: 300
# perftest_atomic.sh - ib_atomic_bw and ib_atomic_lat with their options.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$(dirname "$0")/../rig/shell/perftest.sh"

VERB="atomic"
for type in FETCH_AND_ADD CMP_AND_SWAP; do
	at_night bw 1000 8 -A $type
	bw 1000 8 -A $type -e
	bw 1000 8 -A $type -b
	bw 200 8 -A $type -q 16
	bw 1000 8 -A $type -o 1
	at_night in_full bw 1000 8 -A $type --use_old_post_send
	lat 1000 8 -A $type
	at_night lat 1000 8 -A $type -e
	at_night in_full lat 1000 8 -A $type -x 0
done
exit 0
