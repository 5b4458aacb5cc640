#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# nic.sh - the verbs backend, with rxe of Debian's kernel as the router's NIC, in a VM. Programs in a container talk to the same
# program of rdma-core or perftest that uses the NIC itself, in both roles. Two containers talk through the NIC's loopback.
# The NIC is removed and comes back.
#
# timeout: 1440
if [[ ! -v FT_IN_VM ]]; then
	. "$(dirname "$0")/common.sh"
	vm_test 620 "$0"
	exit
fi

# shellcheck source=tests/vm/inside.sh
. /out/tree/tests/vm/inside.sh

PEER=10.151.9.2
port=18600

# listens WHERE PORT: waits until a program listens on the TCP port, beside the lab (WHERE is `peer`) or in a container.
listens() {
	local i
	for ((i = 0; i < 200; i++)); do
		if ss -Hltn "sport = :$2" | grep >/dev/null . || { [[ $1 != peer ]] && "$LAB" exec "$1" -- \
			ss -Hltn "sport = :$2" | grep >/dev/null .; }; then
			return 0
		fi
		sleep 0.05
	done
	return 1
}

# Runs a program on rxe0 beside the lab, if WHERE is `peer`, or in a container, with the NIC's GID.
at() { # WHERE OPTION-OF-DEVICE OPTION-OF-GID PROGRAM ARGS...
	local where=$1 dev=$2 gid=$3
	shift 3
	if [[ $where == peer ]]; then
		timeout 60 "$@" "$dev" rxe0 "$gid" 1
	else
		timeout 60 "$LAB" exec "$where" -- "$@" "$gid" "$NIC_INDEX"
	fi
}

address() {
	if [[ $1 == peer ]]; then
		echo "$PEER"
	else
		"$LAB" ip "$1"
	fi
}

pair() { # SERVER CLIENT OPTION-OF-DEVICE OPTION-OF-GID PROGRAM ARGS...
	local server=$1 client=$2 pid status=0
	shift 2
	((port++))
	at "$server" "$@" -p "$port" >/tmp/server.log 2>&1 &
	pid=$!
	listens "$server" "$port" || status=1
	at "$client" "$@" -p "$port" "$(address "$server")" || status=1
	wait "$pid" || status=1
	cat /tmp/server.log
	return "$status"
}

pingpong() { pair "$1" "$2" -d -g "${@:3}"; }
pingpong_soft() { NIC_INDEX=0 pair "$1" "$2" -d -g "${@:3}"; }
perf() { pair "$1" "$2" -d -x "${@:3}" -F; }

# Programs with rdma_cm connect to the host's address. The kernel shows who listens there, for itself or for a container.
cm_listens() { rdma resource show cm_id | grep >/dev/null -E "state LISTEN .*(10\.151\.9\.2|0\.0\.0\.0):$1( |$)"; }

cm_at() { # WHERE PROGRAM ARGS...
	local where=$1
	shift
	if [[ $where == peer ]]; then
		timeout 60 "$@"
	else
		timeout 60 "$LAB" exec "$where" -- "$@"
	fi
}

# cm_pair SERVER CLIENT PROGRAM SERVER-ARGS... -- CLIENT-ARGS...: a pair of programs that connect by rdma_cm
cm_pair() {
	local server=$1 client=$2 program=$3 pid status=0 args=()
	shift 3
	((port++))
	while [[ $1 != -- ]]; do
		args+=("$1")
		shift
	done
	shift
	cm_at "$server" "$program" "${args[@]}" -p "$port" >/tmp/server.log 2>&1 &
	pid=$!
	until_is cm_listens "$port" || status=1
	cm_at "$client" "${CLIENT_PROGRAM:-$program}" "$@" -p "$port" || status=1
	wait "$pid" || status=1
	cat /tmp/server.log
	return "$status"
}

cm_perf() { cm_pair "$1" "$2" "${@:3}" -R -F -- "${@:4}" -R -F "$PEER"; }
cm_rping() { cm_pair "$1" "$2" rping -s -C 20 -v -- -c -a "$PEER" -C 20; }
cm_ucmatose() { cm_pair "$1" "$2" ucmatose -c 3 -- -c 3 -s "$PEER"; }
cm_rdma_client() { CLIENT_PROGRAM=rdma_client cm_pair "$1" "$2" rdma_server -- -s "$PEER"; }

# Nobody listens, so the peer's kernel rejects the connection.
cm_rejected() {
	cm_at "$1" rping -c -a "$PEER" -p 18999 -C 1 >/tmp/cm-client.log 2>&1
	cat /tmp/cm-client.log
	grep -q REJECTED /tmp/cm-client.log
}

# WHO (server or client) is killed, and the other program is told of the disconnect.
cm_dies() { # SERVER CLIENT WHO
	local server=$1 client=$2 pid
	((port++))
	cm_at "$server" rping -s -p "$port" -v >/tmp/cm-server.log 2>&1 &
	pid=$!
	until_is cm_listens "$port" || return 1
	cm_at "$client" rping -c -v -a "$PEER" -p "$port" >/tmp/cm-client.log 2>&1 &
	pid="$pid $!"
	until_is grep -q 'ping data' "/tmp/cm-$3.log" || return 1
	pkill -9 -x -f "rping -${3:0:1} .*-p $port.*" || return 1
	# shellcheck disable=SC2086 # two process ids
	wait $pid
	grep -q DISCONNECT "/tmp/cm-$([[ $3 == server ]] && echo client || echo server).log"
}

packets() { rdma statistic show link rxe0/1 | grep -oP 'sent_pkts \K\d+'; }
more_packets_than() { (($(packets) > $1)); }
# Prints how often h0c1 has got this asynchronous event.
heard() { grep -c "$1" /tmp/events.log; }
heard_more() { (($(heard "$1") > $2)); }

port_goes_and_comes() {
	local before
	ip link set eth0 down
	until_is heard_more PORT_ERR 0 || return 1
	before=$(heard PORT_ACTIVE)
	ip link set eth0 up
	until_is heard_more PORT_ACTIVE "$before"
}

# Starts a pair that does not end by itself, between a container and the peer.
endless() { # CONTAINER PORT LOG PROGRAM ARGS...
	local where=$1 at=$2 log=$3
	shift 3
	timeout 100 "$@" -d rxe0 -g 1 -n 10000000 -e -p "$at" >/dev/null 2>&1 &
	peers+=($!)
	listens peer "$at" || return 1
	timeout 100 "$LAB" exec "$where" -- timeout 40 stdbuf -oL "$@" -g "$NIC_INDEX" -n 10000000 -e \
		-p "$at" "$PEER" >"$log" 2>&1 &
	clients+=($!)
}

# Receives of an SRQ are not flushed, and a SEND is flushed only if it had no answer yet. So look at the QPs' state, too.
srq_has_failed() { # CONTAINER
	grep -q 'Flushed Error' /tmp/srq.log ||
		"$LAB" ffctl h0 -- stats --qps | awk -v c="$1" '$1 == c && $4 == "RC" { n++; failed += $5 == "ERR" }
			END { exit n != 4 || failed != 4 }'
}

# Removes the NIC under traffic of RC, of an SRQ and of datagrams. Datagrams stop without an error. The removal waits until
# the peers beside the lab have closed the NIC.
nic_goes() {
	local deletes before
	peers=() clients=()
	before=$(heard PORT_ERR)
	endless h0c0 18900 /tmp/rc.log ibv_rc_pingpong || return 1
	endless h0c1 18901 /tmp/srq.log ibv_srq_pingpong -q 4 || return 1
	endless h0c1 18902 /tmp/ud.log ibv_ud_pingpong -s 1000 || return 1
	until_is grep -q 'remote address' /tmp/rc.log || return 1
	until_is grep -q 'remote address' /tmp/srq.log || return 1
	until_is grep -q 'remote address' /tmp/ud.log || return 1
	until_is more_packets_than $(($(packets) + 300)) || return 1
	timeout 60 rdma link delete rxe0 &
	deletes=$!
	until_is grep -q 'Flushed Error' /tmp/rc.log || return 1
	until_is srq_has_failed h0c1 || return 1
	kill "${clients[1]}" 2>/dev/null # it still waits if nothing was flushed
	! wait "${clients[0]}" || return 1
	! wait "${clients[1]}" || return 1
	kill -0 "${clients[2]}" || return 1
	kill "${peers[@]}"
	wait "$deletes" || return 1
	until_is heard_more PORT_ERR "$before"
}

nic_comes() {
	local before
	before=$(heard PORT_ACTIVE)
	nic_link 0 || return 1
	until_is heard_more PORT_ACTIVE "$before"
}

nic_up 0
"$LAB" up --backend verbs --containers 2 || exit 1
NIC_INDEX=$(("$("$LAB" exec h0c0 -- ibv_devinfo -v | grep -c 'GID\[')" - 1))
# In a pingpong and in a test of latency both sides do the same, so one role is enough; the container's other role takes the
# variant with events.
check rc_pingpong-events-peer-h0c0 pingpong peer h0c0 ibv_rc_pingpong -n 50 -e
check uc_pingpong-h0c0-peer pingpong h0c0 peer ibv_uc_pingpong -n 50
check ud_pingpong-peer-h0c0 pingpong peer h0c0 ibv_ud_pingpong -n 50 -s 1000
check ud_pingpong-events-h0c0-peer pingpong h0c0 peer ibv_ud_pingpong -n 50 -e
check srq_pingpong-peer-h0c0 pingpong peer h0c0 ibv_srq_pingpong -n 50 -q 4
check srq_pingpong-events-h0c0-peer pingpong h0c0 peer ibv_srq_pingpong -n 50 -q 4 -e
check ud_send_lat-inline-peer-h0c0 perf peer h0c0 ib_send_lat -c UD -n 100 -s 64 -I 64
check send_lat-inline-h0c0-peer perf h0c0 peer ib_send_lat -n 100 -I 64
check write_bw-R-peer-h0c0 cm_perf peer h0c0 ib_write_bw -n 100
check send_bw-R-h0c0-peer cm_perf h0c0 peer ib_send_bw -n 100
for pair in "peer h0c0" "h0c0 peer"; do
	read -r a b <<<"$pair"
	check "ud_send_bw-$a-$b" perf "$a" "$b" ib_send_bw -c UD -n 200 -s 1024
	check "write_bw-$a-$b" perf "$a" "$b" ib_write_bw -n 100 -s 65536
	check "read_bw-$a-$b" perf "$a" "$b" ib_read_bw -n 100 -s 65536
	check "send_bw-events-$a-$b" perf "$a" "$b" ib_send_bw -n 100 -s 4096 -e
	check "atomic_bw-$a-$b" perf "$a" "$b" ib_atomic_bw -n 100
	check "rping-$a-$b" cm_rping "$a" "$b"
	check "ucmatose-$a-$b" cm_ucmatose "$a" "$b"
	check "rdma_client-$a-$b" cm_rdma_client "$a" "$b"
done
check rping-h0c0-h0c1 cm_rping h0c0 h0c1
check cm-rejected cm_rejected h0c0
check cm-server-dies cm_dies peer h0c0 server
check cm-client-dies cm_dies h0c0 peer client
check "ud_pingpong-h0c0-h0c1" pingpong h0c0 h0c1 ibv_ud_pingpong -n 50 -s 1000
check "srq_pingpong-h0c0-h0c1" pingpong h0c0 h0c1 ibv_srq_pingpong -n 50 -q 4
check "write_bw-1M-h0c0-peer" perf h0c0 peer ib_write_bw -n 20 -s 1048576
check "rc_pingpong-h0c0-h0c1" pingpong h0c0 h0c1 ibv_rc_pingpong -n 50
check "write_lat-h0c0-h0c1" perf h0c0 h0c1 ib_write_lat -n 100
"$LAB" exec h0c1 -- stdbuf -oL ibv_asyncwatch >/tmp/events.log 2>&1 &
watch=$!
until_is grep -q 'async event FD' /tmp/events.log || failed=1
check port-goes-and-comes port_goes_and_comes
check nic-goes nic_goes
check rc_pingpong-without-it pingpong_soft h0c0 h0c1 ibv_rc_pingpong -n 50
check ud_pingpong-without-it pingpong_soft h0c0 h0c1 ibv_ud_pingpong -n 50
check srq_pingpong-without-it pingpong_soft h0c0 h0c1 ibv_srq_pingpong -n 50 -q 4
check nic-comes nic_comes
check rc_pingpong-with-it-again pingpong h0c0 peer ibv_rc_pingpong -n 50
check ud_pingpong-with-it-again pingpong h0c1 peer ibv_ud_pingpong -n 50
check rping-with-it-again cm_rping peer h0c0
check srq_pingpong-with-it-again pingpong peer h0c1 ibv_srq_pingpong -n 50 -q 4 -e
! grep -E 'sandbox:|error:' /tmp/lab/h0/ffr.log || failed=1
kill "$watch"
check lab-down "$LAB" down
exit "$failed"
