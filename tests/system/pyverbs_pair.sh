#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# all: netns hosts system-san
# timeout: 300
# pyverbs_pair.sh - tests/rig/tools/pyverbs_pair.py between two containers, every byte of it checked, with
# the python3-pyverbs of Debian 12.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$TREE/tests/rig/shell/pyverbs.sh"

root=$(pyverbs_root) || skip "python3-pyverbs cannot be had from apt"

# pyverbs KIND CONTAINER PORT [SERVER]
pyverbs() {
	local kind=$1 c=$2
	shift 2
	"$LAB" exec "$c" -- timeout 180 env "PYTHONPATH=$(pyverbs_packages "$root")" /usr/bin/python3 \
		"$TREE/tests/rig/tools/pyverbs_pair.py" "$kind" "$@"
}

listening() {
	listens "$A" "$PORT" || ended "$server"
}

for kind in RC UC UD ONESIDED; do
	step "$kind"
	((++PORT))
	before=$(counter "$B" tx_bytes)
	pyverbs $kind "$A" "$PORT" >"$OUT/server" 2>&1 </dev/null &
	server=$!
	wait_for 60 listening || fail "the server does not listen: $(cat "$OUT/server")"
	pyverbs $kind "$B" "$PORT" "$A" >"$OUT/client" 2>&1 </dev/null ||
		fail "the client ended with $?: $(cat "$OUT/client")"
	wait $server || fail "the server ended with $?: $(cat "$OUT/server")"
	cat "$OUT/client"
	(($(counter "$B" tx_bytes) - before >= 100000)) || fail "its bytes did not go through the router"
done
exit 0
