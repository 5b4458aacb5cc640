# shellcheck shell=bash disable=SC2034 # what others use
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# inside.sh - in a VM of tests/vm: a NIC (rxe), a lab whose router has it, and programs beside the lab that
# use the NIC themselves, as peers without freeflow do. Sourced.
set -u -o pipefail
TREE=/out/tree
LAB=$TREE/tests/lab/lab
export FF_LAB=/tmp/lab FF_NIC=rxe0 FF_SLOW=10
failed=0

# nic_up N: rxeN on ethN, 10.151.(9 + N).2; its GID index 1 is that address. NIC_MTU: bytes of ethN's packets.
nic_up() {
	local n=$1
	modprobe -q crc32_generic # of rxe, before 6.16
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
	until ibv_devinfo -v -d "rxe$n" | grep -q 'GID\[ *1\]'; do sleep 0.1; done
}

# until_is CMD...: it succeeds, in 30 s.
until_is() {
	local i
	for ((i = 0; i < 300; i++)); do
		"$@" && return 0
		sleep 0.1
	done
	echo "not so in 30 s: $*"
	return 1
}

# check NAME CMD...: one line for each.
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
