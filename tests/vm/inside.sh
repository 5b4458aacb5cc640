# shellcheck shell=bash disable=SC2034 # the scripts that source this use them
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# inside.sh - what tests/vm/*.sh share in their VM: a NIC (rxe), and checks. The lab's router owns the NIC; programs beside
# the lab use the NIC themselves, as peers without freeflow do. Sourced.
set -u -o pipefail
TREE=/out/tree
LAB=$TREE/tests/lab/lab
export FF_LAB=/tmp/lab FF_NIC=rxe0 FF_SLOW=10 VT_SLOW=10
failed=0

# nic_up N: makes the NIC rxeN on the interface ethN with the address 10.151.(9 + N).2, which is GID index 1 of rxeN.
# NIC_MTU is the MTU of ethN in bytes (1500).
nic_up() {
	local n=$1
	modprobe -q crc32_generic # rxe needs it before Linux 6.16
	modprobe -a rdma_rxe rdma_ucm veth bridge
	ip link add "eth$n" type veth peer name "peer$n"
	ip addr add "10.151.$((9 + n)).2/24" dev "eth$n"
	ip link set "eth$n" mtu "${NIC_MTU:-1500}"
	ip link set "peer$n" mtu "${NIC_MTU:-1500}"
	ip link set "eth$n" up
	ip link set "peer$n" up
	nic_link "$n"
}

nic_link() {
	local n=$1
	rdma link add "rxe$n" type rxe netdev "eth$n"
	until ibv_devinfo -v -d "rxe$n" | grep >/dev/null 'GID\[ *1\]'; do sleep 0.1; done
}

# until_is CMD...: waits until the command succeeds. Fails after UNTIL seconds (30).
until_is() {
	local i seconds=${UNTIL:-30}
	for ((i = 0; i < seconds * 10; i++)); do
		"$@" && return 0
		sleep 0.1
	done
	echo "did not succeed within $seconds s: $*"
	return 1
}

# check NAME CMD...: runs the command and prints one line with the result. Sets failed=1 if the command fails.
check() {
	local name=$1 start=$EPOCHREALTIME status
	shift
	"$@" >"/out/$name.log" 2>&1
	status=$?
	case $status in
	0) echo "ok $name ($(awk "BEGIN { printf \"%.1f\", $EPOCHREALTIME - $start }") s)" ;;
	77) echo "skip $name: $(tail -n 1 "/out/$name.log")" ;;
	*)
		echo "FAIL $name, status $status"
		sed 's/^/    /' "/out/$name.log" | tail -n 30
		failed=1
		;;
	esac
}
