#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# siw.sh - the verbs backend on iWARP: siw, the kernel's software iWARP device, is the router's NIC in a VM. Programs in a
# container talk to the same program that uses siw itself, in both roles, through rdma_cm. What siw or iWARP lacks is refused.
#
# night: vm
# timeout: 1200
if [[ ! -v FT_IN_VM ]]; then
	. "$(dirname "$0")/kmod.sh"
	# siw writes to the program's own addresses, which must not be in use in the router.
	VM_APPEND=${VM_APPEND/norandmaps/}
	siw_module
	out=$TMP/siw
	vm_tree "$out"
	cp "$SIW/siw.ko" "$out/"
	vm_checked "$out" "${FT_LIMIT:-500}" "$0"
	exit
fi

# shellcheck source=tests/vm/inside.sh
. /out/tree/tests/vm/inside.sh
export FF_NIC=siw0

PEER=10.151.9.2
port=18600

siw_up() {
	modprobe -a libcrc32c rdma_ucm veth bridge
	insmod /out/siw.ko || exit 1
	ip link add eth0 type veth peer name peer0
	ip addr add $PEER/24 dev eth0
	ip link set eth0 up
	ip link set peer0 up
	rdma link add siw0 type siw netdev eth0
	until ibv_devinfo -d siw0 | grep >/dev/null PORT_ACTIVE; do sleep 0.1; done
}

# Does a program listen on the port, for itself or for a container? With iWARP a listener may be a TCP socket.
listens() { ss -Hltn "sport = :$1" | grep >/dev/null . || rdma resource show cm_id | grep >/dev/null -E "state LISTEN .*:$1( |$)"; }

at() { # WHERE PROGRAM ARGS...
	local where=$1
	shift
	if [[ $where == peer ]]; then
		timeout 40 "$@"
	else
		timeout 40 "$LAB" exec "$where" -- "$@"
	fi
}

# pair SERVER CLIENT PROGRAM SERVER-ARGS... -- CLIENT-ARGS...
pair() {
	local server=$1 client=$2 program=$3 pid status=0 args=()
	shift 3
	((port++))
	while [[ $1 != -- ]]; do
		args+=("$1")
		shift
	done
	shift
	at "$server" "$program" "${args[@]}" -p "$port" >/tmp/server.log 2>&1 &
	pid=$!
	until_is listens "$port" || status=1
	at "$client" "${CLIENT_PROGRAM:-$program}" "$@" -p "$port" || status=1
	wait "$pid" || status=1
	cat /tmp/server.log
	return "$status"
}

perf() { pair "$1" "$2" "${@:3}" -R -F -- "${@:4}" -R -F "$PEER"; }
# With -V a side compares what it has received; with -v it prints it.
ping() { pair "$1" "$2" rping -s -C 50 -S "$3" -v -- -c -a "$PEER" -C 50 -S "$3" -v -V; }
ucmatose_pair() { pair "$1" "$2" ucmatose -c 3 -C 20 -- -c 3 -C 20 -s "$PEER"; }
client_pair() { CLIENT_PROGRAM=rdma_client pair "$1" "$2" rdma_server -- -s "$PEER"; }

# Nobody listens, so the connection is rejected.
refused() {
	timeout 20 "$LAB" exec "$1" -- rping -c -a "$PEER" -p 18999 -C 1 >/tmp/client.log 2>&1
	cat /tmp/client.log
	grep -q 'REJECTED, error 8' /tmp/client.log
}

# WHO (server or client) is killed, and the other program is told of the disconnect.
dies() { # SERVER CLIENT WHO
	local server=$1 client=$2 pid other=client
	((port++))
	[[ $3 == client ]] && other=server
	at "$server" rping -s -p "$port" -v >/tmp/dies-server.log 2>&1 &
	pid=$!
	until_is listens "$port" || return 1
	at "$client" rping -c -v -a "$PEER" -p "$port" >/tmp/dies-client.log 2>&1 &
	pid="$pid $!"
	until_is grep -q 'ping data' "/tmp/dies-$3.log" || return 1
	pkill -9 -x -f "rping -${3:0:1} .*-p $port.*" || { tail -n 5 /tmp/dies-{server,client}.log; return 1; }
	# shellcheck disable=SC2086 # two process ids
	wait $pid
	tail -n 5 "/tmp/dies-$other.log"
	grep -q DISCONNECT "/tmp/dies-$other.log"
}

# The peer is killed while a container's WRs are under way. They end with an error.
is_flushed() {
	local pid
	((port++))
	at peer ib_write_bw -R -F -D 30 -p "$port" >/tmp/server.log 2>&1 &
	until_is listens "$port" || return 1
	at h0c0 ib_write_bw -R -F -D 30 -p "$port" "$PEER" >/tmp/client.log 2>&1 &
	pid=$!
	until_is connected_twice || return 1
	sleep 2
	pkill -9 -x -f "ib_write_bw -R .*-p $port" || return 1
	wait "$pid" && return 1
	cat /tmp/client.log
	grep -q 'Failed status' /tmp/client.log
}
connected_twice() { (($(rdma resource show cm_id | grep -c "state CONNECT .* comm ib_write_bw .*:$port ") >= 2)); }

# iWARP cannot connect QPs by ibv_modify_qp() with numbers that were exchanged over TCP.
modify_is_refused() {
	local index
	index=$(("$("$LAB" exec h0c0 -- ibv_devinfo -v | grep -c 'GID\[')" - 1))
	timeout 20 "$LAB" exec h0c0 -- ibv_rc_pingpong -g "$index" -p 18998 >/tmp/server.log 2>&1 &
	sleep 1
	! timeout 20 "$LAB" exec h0c1 -- ibv_rc_pingpong -g "$index" -p 18998 "$("$LAB" ip h0c0)" || return 1
	wait $!
	cat /tmp/server.log
	grep -q 'Failed to modify QP to RTR' /tmp/server.log
}

siw_up
"$LAB" up --backend verbs --containers 2 || exit 1
check reference ping peer peer 1000
for p in "peer h0c0" "h0c0 peer"; do
	read -r a b <<<"$p"
	check "rping-$a-$b" ping "$a" "$b" 100
	check "rping-60000-$a-$b" ping "$a" "$b" 60000
	check "ucmatose-$a-$b" ucmatose_pair "$a" "$b"
	check "rdma_client-$a-$b" client_pair "$a" "$b"
done
# Perftest does more on iWARP than on other devices (docs/carriers/nic.md): its client makes two connections, and a server in a container
# may be too slow to accept the second one; its server in ib_send_bw writes credits to its client. So either the server is on
# siw itself, or both programs are in containers.
check send_lat-peer-h0c0 perf peer h0c0 ib_send_lat -n 100 -s 64
check write_bw-peer-h0c0 perf peer h0c0 ib_write_bw -n 100 -s 65536
check read_bw-peer-h0c0 perf peer h0c0 ib_read_bw -n 100 -s 65536
check send_bw-h0c0-h0c1 perf h0c0 h0c1 ib_send_bw -n 500 -s 4096
check rping-h0c0-h0c1 ping h0c0 h0c1 1000
# An SRQ must work as it does between two programs on siw itself.
check srq-reference perf peer peer ib_send_lat -n 100 -s 64 --use-srq
check srq-send_lat-peer-h0c0 perf peer h0c0 ib_send_lat -n 100 -s 64 --use-srq
check srq-send_lat-h0c0-peer perf h0c0 peer ib_send_lat -n 100 -s 64 --use-srq
check srq-send_lat-h0c0-h0c1 perf h0c0 h0c1 ib_send_lat -n 100 -s 64 --use-srq
check srq-send_bw-reference perf peer peer ib_send_bw -n 500 -s 4096 --use-srq
check srq-send_bw-h0c0-h0c1 perf h0c0 h0c1 ib_send_bw -n 500 -s 4096 --use-srq
check refused refused h0c0
check server-dies dies peer h0c0 server
check client-dies dies h0c0 peer client
check container-server-dies dies h0c0 peer server
check container-client-dies dies peer h0c0 client
check is-flushed is_flushed
check modify-is-refused modify_is_refused
cp /tmp/lab/h0/ffr.log /out/ffr.log
! grep -E 'sandbox:|error:' /tmp/lab/h0/ffr.log || failed=1
check lab-down "$LAB" down
exit "$failed"
