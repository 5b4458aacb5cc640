#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# nic-memory.sh - the verbs backend with memory as programs use it: small, unaligned, with neighbours. tests/system/verbs_kinds
# runs in a container. Its peer uses the NIC itself, beside the lab, or is another container reached through the NIC's loopback.
#
# test: vm
# timeout: 1200
if [[ ! -v FT_IN_VM ]]; then
	. "$(dirname "$0")/common.sh"
	vm_test 500 "$0"
	exit
fi

# shellcheck source=tests/vm/inside.sh
. /out/tree/tests/vm/inside.sh
PROGRAM=$TREE/build/tests/system/verbs_kinds
port=18800

kinds() { # PEER'S-COMMAND ADDRESS
	local pid status=0

	((++port))
	# shellcheck disable=SC2086 # a command and its arguments
	$1 "$PROGRAM" --peer "$port" >/tmp/peer.log 2>&1 &
	pid=$!
	timeout 400 "$LAB" exec h0c0 -- env VT_GID="$NIC_INDEX" "$PROGRAM" --use "$2" "$port" nic || status=1
	((!status)) || kill "$pid"
	wait "$pid" || status=1
	cat /tmp/peer.log
	return "$status"
}

nic_up 0
"$LAB" up --backend verbs --containers 2 || exit 1
NIC_INDEX=$(("$("$LAB" exec h0c0 -- ibv_devinfo -v | grep -c 'GID\[')" - 1))
check kinds-peer kinds "env VT_DEVICE=rxe0 VT_GID=1" 10.151.9.2
# odd_sizes PROGRAM ARGS...: the server in the container, the client beside the lab
odd_sizes() {
	local pid status=0

	((++port))
	timeout 60 "$LAB" exec h0c0 -- "$@" -x "$NIC_INDEX" -p "$port" -F >/tmp/server.log 2>&1 &
	pid=$!
	until "$LAB" exec h0c0 -- ss -Hltn "sport = :$port" | grep >/dev/null .; do
		running "$pid" || return 1
		sleep 0.1
	done
	timeout 60 "$@" -d rxe0 -x 1 -p "$port" -F "$("$LAB" ip h0c0)" || status=1
	wait "$pid" || status=1
	cat /tmp/server.log
	return "$status"
}
running() { kill -0 "$1" 2>/dev/null; }

check kinds-h0c1 kinds "$LAB exec h0c1 -- env VT_GID=$NIC_INDEX" "$("$LAB" ip h0c1)"
check send_lat odd_sizes ib_send_lat -n 50 -s 77
check send_bw odd_sizes ib_send_bw -n 50 -s 5001
check write_lat odd_sizes ib_write_lat -n 50 -s 3
check read_bw odd_sizes ib_read_bw -n 50 -s 12345
grep -i 'warn\|err' /tmp/lab/h0/ffr.log
check lab-down "$LAB" down
exit "$failed"
