#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# all: netns
# night: hosts system-san
# timeout: 300
# libfabric.sh - Debian's libfabric over its verbs provider: what fi_info makes of the device, and
# fi_pingpong, which checks its data (-c), over connections (msg), over datagrams, and reliable (rdm) on
# each of the two. libfabric's own tests, which are in no package, are run by `make matrix`.
. "$(dirname "$0")/../rig/shell/lab.sh"

command -v fi_pingpong >/dev/null || skip "no libfabric-bin (make deps)"
ITERATIONS=10

step "fi_info"
inside "$A" fi_info -p verbs >"$OUT/info" || fail "fi_info ended with $?"
for type in FI_EP_MSG FI_EP_RDM FI_EP_DGRAM; do
	grep -A3 'domain: ff0' "$OUT/info" | grep >/dev/null "type: $type\$" || {
		cat "$OUT/info"
		fail "no $type on ff0"
	}
done

# pingpong PROVIDER TYPE LARGEST OPTIONS...: all sizes up to LARGEST bytes are in both reports, with each
# message acknowledged, and the router moved them.
pingpong() {
	local provider=$1 type=$2 largest=$3 before moved
	shift 3
	((++PORT))
	step "fi_pingpong -p $provider -e $type $*"
	before=$(($(counter "$A" tx_bytes) + $(counter "$B" tx_bytes)))
	"$LAB" exec "$A" -- fi_pingpong -B $PORT -p "$provider" -e "$type" -I $ITERATIONS -c "$@" \
		>"$OUT/server" 2>&1 </dev/null &
	SERVER_JOB=$!
	wait_for 60 server_ready "$A" || server_failed fi_pingpong
	timeout 180 "$LAB" exec "$B" -- fi_pingpong -P $PORT -p "$provider" -e "$type" -I $ITERATIONS -c "$@" \
		"$("$LAB" ip "$A")" >"$OUT/client" 2>&1 || pingpong_failed "the client ended with $?"
	wait $SERVER_JOB || pingpong_failed "the server ended with $?"
	complaint "$OUT/client" && pingpong_failed "it complains"
	for side in client server; do
		awk -v n=$ITERATIONS -v last="$largest" '
			$2 == n && NF == 8 { rows++; bad += $3 != "=" n; size = $1 }
			END { exit !(rows && !bad && size == last) }' "$OUT/$side" || pingpong_failed "its report"
	done
	moved=$(($(counter "$A" tx_bytes) + $(counter "$B" tx_bytes) - before))
	((moved >= 2 * ITERATIONS * 4096)) || fail "the router moved $moved bytes only"
}

pingpong_failed() {
	sed 's/^/  client: /' "$OUT/client"
	sed 's/^/  server: /' "$OUT/server"
	fail "fi_pingpong: $*"
}

pingpong verbs msg 6m -S all
pingpong verbs dgram 4k -S all
pingpong "verbs;ofi_rxm" rdm 6m -S all
pingpong "verbs;ofi_rxm" rdm 1m -m tagged
pingpong "verbs;ofi_rxd" rdm 6m -S all
pingpong "verbs;ofi_rxd" rdm 1m -m tagged
exit 0
