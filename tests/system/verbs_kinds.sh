#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# test: netns
# all: hosts docker system-san
# timeout: 360
# verbs_kinds.sh - memory as programs have it, against a peer in another container; as it is registered by default, and
# with whole pages replaced. With a NIC it is used in tests/vm/nic-memory.sh.
. "$(dirname "$0")/../rig/shell/lab.sh"

program=$BUILD/tests/system/verbs_kinds

kinds() { # FFL_REPLACE
	local job status

	step "FFL_REPLACE=$1"
	((++PORT))
	"$LAB" exec "$B" -- "$program" --peer $PORT >"$OUT/peer" 2>&1 </dev/null &
	job=$!
	inside "$A" env FFL_REPLACE="$1" "$program" --use "$B" $PORT
	status=$?
	((status == 0)) || kill $job 2>/dev/null
	wait $job && ((status == 0)) && return
	sed 's/^/  peer: /' "$OUT/peer"
	fail "it ended with $status"
}

kinds ""
kinds whole
