#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# test: netns
# all: system-san
# timeout: 360
# fault_router_local.sh - the only router is killed and stopped under a load that verifies itself:
# what was reported complete is in the receiver's memory, atomics were done once, and both programs
# open the device again and go on.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$(dirname "$0")/../rig/shell/load.sh"
own_lab --hosts 1 --containers 2

load_server h0c0
load_client h0c1 h0c0 --seconds 0 -r --ud 1
for round in 1 2; do
	load_moves 20 || fail "round $round: no traffic"
	if ((round % 2)); then
		step "round $round: kill -9"
		"$LAB" kill router h0
	else
		step "round $round: stop"
	fi
	"$LAB" restart router h0 || fail "restart"
	load_returns 20 $((9 * round)) || fail "round $round: lanes do not come back"
done
load_stop 0
load_tell
(($(load_of reopens) == 2)) || fail "the device was opened again $(load_of reopens) times"
(($(load_of failures) == 18)) || fail "$(load_of failures) failures, not 18"
(($(load_of peer_restarts) == 0)) || fail "the server was another one"
load_server_stop 0
(($(sink_of reopens) == 2)) || fail "the sink opened it again $(sink_of reopens) times"
exit 0
