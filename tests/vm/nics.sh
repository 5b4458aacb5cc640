#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# nics.sh - the verbs backend with two NICs, both of them rxe of Debian's kernel, in a VM. Container h0c0 has rxe0, h0c1 has
# rxe1, and each talks to a program beside the lab on the same NIC. Then rxe1 is removed under traffic of both containers, and
# comes back.
#
# night: vm
# timeout: 840
if [[ ! -v FT_IN_VM ]]; then
	. "$(dirname "$0")/common.sh"
	vm_test 360 "$0"
	exit
fi

# shellcheck source=tests/vm/inside.sh
. /out/tree/tests/vm/inside.sh
export FF_NIC="rxe0 rxe1"
declare -A nic=([h0c0]=rxe0 [h0c1]=rxe1) address=([h0c0]=10.151.9.2 [h0c1]=10.151.10.2)
port=18700

listens() { ss -Hltn "sport = :$1" | grep >/dev/null .; }
listens_in() { "$LAB" exec "$1" -- ss -Hltn "sport = :$2" | grep >/dev/null .; }

# The container has the expected NIC, whose address is the last in the container's GID table.
has_its_nic() { # CONTAINER
	"$LAB" ffctl h0 -- container show "$1" | tee /dev/stderr | grep >/dev/null "^nic  *${nic[$1]}:1\$" &&
		"$LAB" exec "$1" -- ibv_devinfo -v | tee /dev/stderr | grep 'GID\[' | tail -n 1 |
		grep -q "${address[$1]}"
}

# Runs a program in the container as the client of a peer on the container's NIC.
client_of_peer() { # CONTAINER PROGRAM ARGS...
	local c=$1 pid status=0
	shift
	((++port))
	timeout 60 "$@" -d "${nic[$c]}" -g 1 -p "$port" &
	pid=$!
	until_is listens "$port" || status=1
	timeout 60 "$LAB" exec "$c" -- "$@" -g "$NIC_INDEX" -p "$port" 10.151.9.2 || status=1
	wait "$pid" || status=1
	return "$status"
}

# Runs a program in the container as the server of a peer on the container's NIC.
server_of_peer() { # CONTAINER PROGRAM ARGS...
	local c=$1 pid status=0
	shift
	((++port))
	timeout 60 "$LAB" exec "$c" -- "$@" -g "$NIC_INDEX" -p "$port" &
	pid=$!
	until_is listens_in "$c" "$port" || status=1
	timeout 60 "$@" -d "${nic[$c]}" -g 1 -p "$port" "$("$LAB" ip "$c")" || status=1
	wait "$pid" || status=1
	return "$status"
}

# Does a program listen with rdma_cm at the address of the container's NIC?
cm_listens() { rdma resource show cm_id | grep >/dev/null -E "state LISTEN .*(${address[$1]}|0\.0\.0\.0):$port( |\$)"; }

# rping with its server in the container and its client beside the lab
rping_to() { # CONTAINER
	local pid status=0
	((++port))
	timeout 60 "$LAB" exec "$1" -- rping -s -C 20 -v -p "$port" &
	pid=$!
	until_is cm_listens "$1" || status=1
	timeout 60 rping -c -a "${address[$1]}" -C 20 -p "$port" || status=1
	wait "$pid" || status=1
	return "$status"
}

# Two containers on different NICs talk to each other. No network joins the NICs, so the router copies within the host.
among_them() {
	local pid status=0
	((++port))
	timeout 60 "$LAB" exec h0c0 -- ibv_rc_pingpong -g 0 -n 50 -p "$port" &
	pid=$!
	until_is listens_in h0c0 "$port" || status=1
	timeout 60 "$LAB" exec h0c1 -- ibv_rc_pingpong -g 0 -n 50 -p "$port" "$("$LAB" ip h0c0)" || status=1
	wait "$pid" || status=1
	return "$status"
}

# Starts a pair that does not end by itself.
endless() { # CONTAINER LOG
	((++port))
	timeout 100 ibv_rc_pingpong -d "${nic[$1]}" -g 1 -n 10000000 -e -p "$port" >/dev/null 2>&1 &
	peers+=($!)
	until_is listens "$port" || return 1
	timeout 100 "$LAB" exec "$1" -- timeout 60 stdbuf -oL ibv_rc_pingpong -g "$NIC_INDEX" -n 10000000 -e \
		-p "$port" 10.151.9.2 >"$2" 2>&1 &
	clients+=($!)
	until_is grep -q 'remote address' "$2"
}

packets() { cat "/sys/class/infiniband/$1/ports/1/hw_counters/sent_pkts"; }
more_packets_than() { (($(packets "$1") > $2)); }
heard() { grep -c "$2" "/tmp/events-$1.log"; }
heard_more() { (($(heard "$1" "$2") > $3)); }

one_goes() {
	local deletes before
	peers=() clients=()
	endless h0c0 /tmp/first.log || return 1
	endless h0c1 /tmp/second.log || return 1
	until_is more_packets_than rxe0 $(($(packets rxe0) + 200)) || return 1
	until_is more_packets_than rxe1 $(($(packets rxe1) + 200)) || return 1
	timeout 60 rdma link delete rxe1 &
	deletes=$!
	until_is grep -q 'Flushed Error' /tmp/second.log || return 1
	! wait "${clients[1]}" || return 1
	kill "${peers[1]}"
	wait "$deletes" || return 1
	until_is heard_more h0c1 PORT_ERR 0 || return 1
	# The traffic on the first NIC goes on.
	before=$(packets rxe0)
	until_is more_packets_than rxe0 $((before + 200)) || return 1
	kill -0 "${clients[0]}" || return 1
	! heard_more h0c0 PORT_ERR 0 || return 1
	! grep -q Error /tmp/first.log
}

one_comes() {
	local before
	before=$(heard h0c1 PORT_ACTIVE)
	nic_link 1 || return 1
	until_is heard_more h0c1 PORT_ACTIVE "$before" || return 1
	! heard_more h0c0 PORT_ACTIVE 0 || return 1
	kill -0 "${clients[0]}" || return 1
	kill "${peers[0]}" "${clients[0]}"
	wait "${clients[0]}"
	return 0
}

# The operator gives h0c1 another NIC. The router refuses that while programs have the device open.
another_nic() {
	! "$LAB" ffctl h0 -- container nic h0c1 rxe0 || return 1
	kill "${watch[@]}"
	until_is "$LAB" ffctl h0 -- container nic h0c1 rxe0 || return 1
	! "$LAB" ffctl h0 -- container nic h0c1 rxe7 || return 1
	nic[h0c1]=rxe0 address[h0c1]=10.151.9.2
	has_its_nic h0c1
}

# A restarted router keeps the operator's choice. Otherwise h0c1 would get the second NIC.
kept_choice() {
	"$LAB" restart router h0 && has_its_nic h0c0 && has_its_nic h0c1
}

nic_up 0
nic_up 1
"$LAB" up --backend verbs --containers 2 || exit 1
NIC_INDEX=$(("$("$LAB" exec h0c0 -- ibv_devinfo -v | grep -c 'GID\[')" - 1))
watch=()
for c in h0c0 h0c1; do
	check "nic-of-$c" has_its_nic "$c"
	check "rc_pingpong-$c-peer" client_of_peer "$c" ibv_rc_pingpong -n 50
	check "rc_pingpong-peer-$c" server_of_peer "$c" ibv_rc_pingpong -n 50 -e
	check "ud_pingpong-$c-peer" client_of_peer "$c" ibv_ud_pingpong -n 50 -s 1000
	check "srq_pingpong-$c-peer" client_of_peer "$c" ibv_srq_pingpong -n 50 -q 4
	check "rping-$c" rping_to "$c"
	"$LAB" exec "$c" -- stdbuf -oL ibv_asyncwatch >"/tmp/events-$c.log" 2>&1 &
	watch+=($!)
	until_is grep -q 'async event FD' "/tmp/events-$c.log" || failed=1
done
check rc_pingpong-h0c0-h0c1 among_them
check one-goes one_goes
check rc_pingpong-h0c0-without-the-other client_of_peer h0c0 ibv_rc_pingpong -n 50
check one-comes one_comes
check rc_pingpong-h0c1-again client_of_peer h0c1 ibv_rc_pingpong -n 50
check rping-h0c1-again rping_to h0c1
check another-nic another_nic
check rc_pingpong-h0c1-by-the-first client_of_peer h0c1 ibv_rc_pingpong -n 50
check kept-choice kept_choice
check rc_pingpong-h0c1-kept client_of_peer h0c1 ibv_rc_pingpong -n 50
! grep -E 'sandbox:|error:' /tmp/lab/h0/ffr.log || failed=1
check lab-down "$LAB" down
exit "$failed"
