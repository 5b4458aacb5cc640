#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# all: hosts
# timeout: 300
# fault_delay.sh - a link that takes 10 ms longer and loses 1 % of its frames: slower, nothing else.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$(dirname "$0")/../rig/shell/load.sh"
own_lab --containers 1

"$LAB" delay h1 10ms loss 1%
status=$?
((status != 77)) || skip "no delay on this machine's links"
((status == 0)) || fail "lab delay ended with $status"
# One lane with 4 operations under way: 400 in a second, at most, of which each takes 10 ms.
step "it is slow"
load_use slow
load_server "$B"
load_client "$A" "$B" --seconds 2 -q 1 -w 4 --receives 4 -s 1-64 --timeout 19
load_wait 0
load_tell
(($(load_of total) < 1000)) || fail "$(load_of total) operations in 2 s: nothing is delayed"
load_server_stop 0

step "and loses frames"
load_both -q 6 --ud 1 -r --timeout 19 -w 32 -s 1-65536
load_each load_moves 30 || fail "no traffic"
for _ in 1 2 3 4 5; do
	load_each load_unharmed 0 || fail "a connection failed"
done
"$LAB" delay h1 off
load_each load_unharmed 0 || fail "a connection failed when the link was better"
load_both_stop
exit 0
