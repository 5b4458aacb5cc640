#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# night: docker
# timeout: 900
# debian13.sh - UCX 1.18 and libfabric 2.1 in containers of Debian 13, with no variable set: both take the device rather
# than TCP. Each runs over TCP after that, for its figures.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$TREE/tests/rig/shell/programs.sh"

[[ $ENGINE == docker && $HOSTS == 1 ]] || skip "Debian 13 wants Docker"
own_lab --image debian13+libfabric-bin --containers 2

# pingpong OPTIONS...: with its data compared (-c); all messages are acknowledged.
pingpong() {
	((++PORT))
	step "fi_pingpong $*"
	"$LAB" exec "$A" -- fi_pingpong -B $PORT -I 20 -c -S all "$@" >"$OUT/server" 2>&1 </dev/null &
	SERVER_JOB=$!
	wait_for 60 server_ready "$A" || server_failed fi_pingpong
	if ! { timeout 180 "$LAB" exec "$B" -- fi_pingpong -P $PORT -I 20 -c -S all "$@" "$("$LAB" ip "$A")" >"$OUT/client" 2>&1 &&
		wait $SERVER_JOB && awk '$2 == 20 && $3 == "=20" { rows++ } END { exit rows < 10 }' "$OUT/client"; }; then
		cat "$OUT/client"
		fail "fi_pingpong"
	fi
	tail -n 1 "$OUT/client"
}

inside "$A" ucx_info -v | head -n 1
ucx_figures ucx_perftest -P 0 # no MPI
inside "$A" fi_info --version | head -n 1
moved $((10 << 20)) pingpong -e rdm
pingpong -e rdm -p "tcp;ofi_rxm"
