#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# test: hosts
# timeout: 360
# fault_router.sh - kill -9 of either host's router under traffic in both directions, with contents
# verified: lanes fail, come back when it does, and nothing that was reported complete is missing. What
# runs within the other host takes no notice.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$(dirname "$0")/../rig/shell/load.sh"
own_lab --containers 2
LANES=7 # 6 RC, 1 UD

step "traffic between the hosts, both ways, and within each"
load_both -q 6 --ud 1 -r --timeout 13
for pair in h0 h1; do
	load_use $pair
	load_server ${pair}c1
	load_client ${pair}c0 ${pair}c1 --seconds 0 -q 2 -s 1-4096 -r
done
for pair in there back h0 h1; do
	load_use $pair
	load_moves 20 || fail "$pair: no traffic"
done

declare -A deaths=([h0]=0 [h1]=0)
for host in h1 h0; do
	step "kill -9 of the router of $host"
	load_each load_mark
	"$LAB" kill router $host
	((++deaths[$host]))
	load_each wait_for 90 load_failed 6 || fail "lanes do not fail"
	other=h$((1 - ${host#h}))
	load_use $other
	load_unharmed $((2 * deaths[$other])) || fail "$other, where no router died, is disturbed"
	"$LAB" restart router $host || fail "restart"
	load_each load_returns 120 $LANES || fail "lanes do not come back"
	load_each load_moves 20 || fail "no traffic"
done
load_both_stop
for pair in h0 h1; do
	load_use $pair
	load_stop 0
	load_tell
	(($(load_of failures) == 2 * ${deaths[$pair]})) || fail "$(load_of failures) failures of 2 lanes, ${deaths[$pair]} times"
	load_server_stop 0
done
exit 0
