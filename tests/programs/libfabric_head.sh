#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# timeout: 900
# libfabric_head.sh - programs of libfabric's fabtests that check their data (-v), built with libfabric of today:
# reliable datagrams on connections and on datagrams. Without any setting libfabric takes the device before TCP.
# tests/system/fabtests.sh runs all of fabtests, of this release too, where FABTESTS names their folder.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$TREE/tests/rig/shell/programs.sh"

needs libfabric/bin/fi_rdm_pingpong
fabtests=$PROGRAMS/libfabric/bin

# fabtest PROGRAM OPTIONS...: with a server in A; both end well.
fabtest() {
	local program=$1 status=0 server_status=0
	shift
	((++PORT))
	step "$program $*"
	timeout 170 "$LAB" exec "$A" -- "$fabtests/$program" "-b=$PORT" "$@" >"$OUT/server" 2>&1 </dev/null &
	SERVER_JOB=$!
	wait_for 60 server_ready "$A" || server_failed "$program"
	timeout 170 "$LAB" exec "$B" -- "$fabtests/$program" "-b=$PORT" "$@" "$("$LAB" ip "$A")" \
		>"$OUT/client" 2>&1 || status=$?
	((!status)) || kill $SERVER_JOB 2>/dev/null
	wait $SERVER_JOB || server_status=$?
	((!status && !server_status)) || {
		sed 's/^/  client: /' "$OUT/client"
		sed 's/^/  server: /' "$OUT/server"
		fail "$program $*: client ended with $status, server with $server_status"
	}
	tail -n 1 "$OUT/client"
}

moved $((20 << 20)) fabtest fi_rdm_pingpong -v -I 20 -S 1048576
for provider in "verbs;ofi_rxm" "verbs;ofi_rxd"; do
	moved $((1 << 20)) fabtest fi_rdm_tagged_pingpong -p "$provider" -v -I 20 -S 65536
done
moved $((1 << 20)) fabtest fi_rma_pingpong -p "verbs;ofi_rxm" -o writedata -v -I 20 -S 65536
fabtest fi_rdm_atomic -p "verbs;ofi_rxm" -I 20 -o all
fabtest fi_rdm_tagged_bw -p "verbs;ofi_rxm" -I 200 -S 1048576
fabtest fi_rdm_tagged_bw -p "tcp;ofi_rxm" -I 200 -S 1048576
