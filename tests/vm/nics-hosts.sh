#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# nics-hosts.sh - the verbs backend between two hosts with two NICs each: two VMs in two networks. Each VM has a router with
# rxe0 in the network `one` and rxe1 in the network `two`, and one container on each NIC. The packets that each NIC has sent
# tell which NIC carried the traffic.
#
# timeout: 1200
if [[ ! -v FT_IN_VM ]]; then
	VM_CPUS=2 # beside the other one, a VM with one CPU is too slow for the time-outs of connections
	. "$(dirname "$0")/common.sh"
	VM_NETS=2 vm_two vm_test 480 "$0"
	exit
fi

# shellcheck source=tests/vm/inside_hosts.sh
. /out/tree/tests/vm/inside_hosts.sh
declare -A nic=([c0a]=rxe0 [c0b]=rxe0 [c1a]=rxe1 [c1b]=rxe1) address=([c0a]=10.88.0.10 [c0b]=10.88.0.20 [c1a]=10.88.0.11 [c1b]=10.88.0.21)
port=18600

has_nic() { "${FFCTL[@]}" container show "$1" | tee /dev/stderr | grep >/dev/null "^nic  *$2:1\$"; }

# sends NIC|none COMMAND...: runs the command and fails unless only that NIC of this VM has sent packets meanwhile.
sends() {
	local by=$1 n sent before=("$(packets rxe0)" "$(packets rxe1)")
	"${@:2}"
	for n in 0 1; do
		sent=$(($(packets "rxe$n") - before[n]))
		if [[ $by == "rxe$n" ]]; then
			((sent >= 40)) && continue
		else
			((sent < 10)) && continue
		fi
		echo "FAIL: ${*:2:3}: rxe$n has sent $sent packets, and all are to go by $by"
		failed=1
	done
}

# What carries a pair of QPs does not depend on how their numbers were exchanged, or on the operation. So each state of the
# NICs has `rc`, and only some of them also have `cm` and `writes`.
#
# rc, cm, writes NIC|none NAME AT-A AT-B: checks that this NIC carries SENDs of QPs whose numbers went over TCP, SENDs of QPs
# that rdma_cm connected, and WRITEs.
rc() { sends "$1" pair "rc_pingpong-$2" "$3" "$4" ibv_rc_pingpong -g 0 -n 50 -p $((++port)); }
cm() { sends "$1" by_cm "${address[$3]}" $((++port)) "rping-$2" "$3" "$4"; }
writes() { sends "$1" pair "write_bw-$2" "$3" "$4" ib_write_bw -x 0 -n 100 -s 16384 -p $((++port)) -F; }

all() {
	rc "$@"
	cm "$@"
	writes "$@"
}

# Datagrams go from the sender's NIC to the receiver's NIC in that network. The routers' wire carries the first ones, until
# there is an address handle.
datagrams() {
	sends "$1" pair "ud_pingpong-$2" "$3" "$4" ibv_ud_pingpong -g 0 -n 100 -s 800 -p $((++port))
}

# Starts a pair that does not end by itself.
endless() { # NAME AT-A AT-B
	local log=/tmp/$1.log where=$2 peer=()
	((++port))
	if [[ $me == b ]]; then
		where=$3 peer=("${CLIENT_ARGS[@]}")
		until_is told "$port" || return 1
	fi
	inside "$where" stdbuf -oL ibv_rc_pingpong -g 0 -n 10000000 -e -p "$port" "${peer[@]}" >"$log" 2>&1 &
	clients[$1]=$!
	[[ $me == b ]] || tell_when_it_listens "$port"
	until_is grep -q 'remote address' "$log" || { cat "$log"; return 1; }
}
declare -A clients=()

under_traffic() {
	endless first c0a c0b && endless second c1a c1b || return 1
	until_is more_packets_than rxe0 $(($(packets rxe0) + 200)) || return 1
	if [[ $me == a ]]; then # the removal also ends b's traffic, however far b has come
		until_is more_packets_than rxe1 $(($(packets rxe1) + 200)) || return 1
		rdma link delete rxe1 || return 1
		says 'NIC rxe1.*it is gone' || return 1
	fi
	# Only a's program gets an error: b's waits for a message, and nobody tells it that none will come.
	if [[ $me == a ]]; then
		until_is grep -q 'Flushed Error' /tmp/second.log || { cat /tmp/second.log; return 1; }
		! wait "${clients[second]}" || return 1
	fi
	# The traffic on the first NIC goes on.
	until_is more_packets_than rxe0 $(($(packets rxe0) + 200)) || return 1
	kill -0 "${clients[first]}" || return 1
	! grep -q Error /tmp/first.log
}

modprobe -a crc32_generic rdma_rxe rdma_ucm
for n in 0 1; do
	eth_up $n
	nic_link $n
done
router_up 'nic = { "rxe0", "rxe1" }' 'nic_network = { "one", "two" }' 'nic_direct = true'
for c in "c0$me" "c1$me"; do
	"${FFCTL[@]}" container add "$c" --ip "${address[$c]}" || exit 1
	check "nic-of-$c" has_nic "$c" "${nic[$c]}"
done
# This pair introduces the routers to each other. Until then a queue pair waits for up to a second.
pair first c0a c0b ibv_rc_pingpong -g 0 -n 5 -p $((++port))
all rxe0 one c0a c0b
all rxe1 two c1a c1b
all none not-in-one c0a c1b
rc none not-in-one-either c1a c0b
datagrams rxe0 one c0a c0b
datagrams rxe1 two c1a c1b
# A container connects to the address of the other host's NIC, as to a host without freeflow.
sends rxe1 by_cm 10.151.10.1 $((++port)) rping-direct c1a c1b
sends rxe0 by_cm 10.151.9.1 $((++port)) rping-direct-one c0a c0b

check one-goes under_traffic
# b keeps its programs until a has seen that the first pair goes on.
if [[ $me == a ]]; then
	echo one-goes >>/run/ff/listens
else
	UNTIL=60 until_is told one-goes || failed=1
fi
pkill -f 'ibv_rc_pingpong .*-n 10000000'
rc rxe0 one-without-the-other c0a c0b
rc none two-without c1a c1b
cm none two-without c1a c1b
[[ $me == b ]] || { nic_link 1 && says 'NIC rxe1.*it is back'; } || failed=1
all rxe1 two-back c1a c1b
datagrams rxe1 two-back c1a c1b

# The operator gives b's first container the other NIC.
[[ $me == a ]] || "${FFCTL[@]}" container nic c0b rxe1 || failed=1
[[ $me == a ]] || check another-nic has_nic c0b rxe1
all rxe1 by-the-other c1a c0b
rc none not-in-one-now c0a c0b
grep -v info: /out/ffr.log
kill "$router"
exit "$failed"
