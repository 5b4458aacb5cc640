#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# all: hosts
# night: hosts
# timeout: 360
# fault_partition.sh - the link between two hosts is cut and heals: within the retry budget no program
# notices; after it exactly the connections over that link fail with "retry exceeded", and new ones
# work as soon as it heals.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$(dirname "$0")/../rig/shell/load.sh"
own_lab --containers 2

# The time that nothing was completed, from the logs: it must have been cut at all.
gap_over() { # MS
	python3 -c 'import sys; sys.exit(not float(sys.argv[1]) > float(sys.argv[2]))' \
		"$(load_of longest_gap_ms)" "$1"
}

retries_exceeded() {
	(($(load_of completions "transport retry counter exceeded") > 0))
}

step "cut for less than the retry budget (8.6 s)"
load_both -q 6 -r --timeout 18
load_each load_moves 20 || fail "no traffic"
for seconds in 0.3 1 2; do
	"$LAB" partition h1
	sleep $seconds # the cut is what is tested
	"$LAB" heal h1
	load_each load_unharmed 0 || fail "a cut of $seconds s was noticed"
done
load_both_stop
load_each gap_over 900 || fail "nothing was cut"

step "cut for more than the retry budget (0.27 s); a neighbour within the host"
load_use neighbour
load_server h1c1
load_client h1c0 h1c1 --seconds 0 -q 2 -s 1-4096 -r
load_both -q 6 -r --timeout 13
load_each load_moves 20 || fail "no traffic"
for round in $(rounds 3); do
	load_each load_mark
	"$LAB" partition h1
	load_each wait_for 90 load_failed 6 || fail "round $round: lanes do not fail"
	"$LAB" heal h1
	load_each load_returns 120 6 || fail "round $round: lanes do not come back"
	load_each load_moves 20 || fail "round $round: no traffic"
done
load_both_stop
load_each retries_exceeded || fail "not one retry was exceeded"
load_use neighbour
load_unharmed 0 || fail "the neighbour was disturbed"
load_stop 0
load_tell
load_server_stop 0
exit 0
