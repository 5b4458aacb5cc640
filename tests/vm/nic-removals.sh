#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# nic-removals.sh - the NIC is removed under the traffic of several clients and comes back, FT_REMOVALS times (20), but at least
# twice and not much longer than FT_SECONDS (60). Clients on the NIC end each time. A client that stays within the host runs
# through all removals. At the end the router has as many descriptors, threads and mappings as after the first removal.
#
# all: vm
# night: vm
# timeout: 1440
if [[ ! -v FT_IN_VM ]]; then
	. "$(dirname "$0")/common.sh"
	vm_test 620 "$0"
	exit
fi

# shellcheck source=tests/vm/inside.sh
. /out/tree/tests/vm/inside.sh
removals=${FT_REMOVALS:-20}
port=18700

listens() { ss -Hltn "sport = :$1" | grep >/dev/null .; }
listens_in() { "$LAB" exec "$1" -- ss -Hltn "sport = :$2" | grep >/dev/null .; }
packets() { cat "/sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts"; }
more_packets_than() { (($(packets) > $1)); }

# endless CONTAINER LOG PROGRAM ARGS...: starts a pair with a peer beside the lab that runs until something ends it.
endless() {
	local c=$1 log=$2
	shift 2
	((++port))
	timeout 60 "$@" -g 1 -n 10000000 -e -p "$port" >/dev/null 2>&1 &
	peers+=($!)
	until_is listens "$port" || return 1
	timeout 60 "$LAB" exec "$c" -- timeout 50 stdbuf -oL "$@" -g "$NIC_INDEX" -n 10000000 -e -p "$port" \
		10.151.9.2 >"$log" 2>&1 &
	clients+=($!)
}

removal() {
	local i deletes before
	peers=() clients=()
	endless h0c0 /tmp/first.log ibv_rc_pingpong && endless h0c1 /tmp/second.log ibv_rc_pingpong &&
		endless h0c1 /tmp/datagrams.log ibv_ud_pingpong -s 1000 || return 1
	for i in first second datagrams; do
		until_is grep -q 'remote address' "/tmp/$i.log" || return 1
	done
	before=$(packets)
	until_is more_packets_than $((before + 100)) || return 1
	timeout 60 rdma link delete rxe0 &
	deletes=$!
	for i in first second; do
		until_is grep -q 'Flushed Error' "/tmp/$i.log" || return 1
	done
	! wait "${clients[0]}" || return 1
	! wait "${clients[1]}" || return 1
	kill -0 "${clients[2]}" || return 1
	kill "${peers[@]}" 2>/dev/null
	wait "$deletes" || return 1
	kill "${clients[2]}"
	wait "${clients[2]}"
	nic_link 0 || return 1
	until_is is_back || return 1
	# The client within the host goes on.
	kill -0 "$within" || return 1
	before=$(within_has)
	until_is within_more_than "$before"
}

is_back() { (($(grep -c 'NIC rxe0:1: it is back' /tmp/lab/h0/ffr.log) == done_so_far + 1)); }
within_has() { "$LAB" ffctl h0 -- --json stats h0c0 | grep -o '"tx_bytes": [0-9]*' | head -n 1 | grep -o '[0-9]*$'; }
within_more_than() { (($(within_has) > $1)); }

# Prints how many descriptors, threads and mappings the router has.
router_has() {
	local pid
	pid=$(</tmp/lab/h0/router.pid)
	echo "$(find "/proc/$pid/fd" -mindepth 1 | wc -l) $(find "/proc/$pid/task" -mindepth 1 -maxdepth 1 | wc -l)" \
		"$(wc -l <"/proc/$pid/maps")"
}

nic_up 0
"$LAB" up --backend verbs --containers 2 || exit 1
NIC_INDEX=$(("$("$LAB" exec h0c0 -- ibv_devinfo -v | grep -c 'GID\[')" - 1))
timeout 3000 "$LAB" exec h0c1 -- ibv_rc_pingpong -g 0 -n 2000000000 -e -p 18699 >/tmp/within-server.log 2>&1 &
until_is listens_in h0c1 18699 || exit 1
timeout 3000 "$LAB" exec h0c0 -- ibv_rc_pingpong -g 0 -n 2000000000 -e -p 18699 "$("$LAB" ip h0c1)" >/tmp/within.log 2>&1 &
within=$!
begin=$SECONDS
for ((done_so_far = 0; done_so_far < removals && !failed; done_so_far++)); do
	((done_so_far < 2 || SECONDS - begin < ${FT_SECONDS:-60})) || break
	check "removal-$done_so_far" removal
	((done_so_far)) || first=$(router_has)
done
last=$(router_has)
echo "$done_so_far removals in $SECONDS s; the router's descriptors, threads and mappings after the first: $first, at the end: $last"
read -r fds threads maps <<<"$first"
read -r fds_now threads_now maps_now <<<"$last"
((fds_now <= fds && threads_now <= threads && maps_now <= maps + 10)) || {
	echo "FAIL: something is left of each removal"
	failed=1
}
! grep -E 'sandbox:|error:' /tmp/lab/h0/ffr.log || failed=1
check lab-down "$LAB" down
exit "$failed"
