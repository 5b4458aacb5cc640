# shellcheck shell=bash disable=SC2034 # what others use
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# inside.sh - in a VM of tests/vm: a NIC (rxe), a lab whose router has it, and programs beside the lab that
# use the NIC themselves, as peers without freeflow do. Sourced.
set -u -o pipefail
TREE=/out/tree
LAB=$TREE/tests/lab/lab
export FF_LAB=/tmp/lab FF_NIC=rxe0 FF_SLOW=10
failed=0

# rxe0 on eth0, 10.151.9.2; its GID index 1 is that address.
nic_up() {
	modprobe -a crc32_generic rdma_rxe rdma_ucm veth bridge
	ip link add eth0 type veth peer name peer0
	ip addr add 10.151.9.2/24 dev eth0
	ip link set eth0 up
	ip link set peer0 up
	nic_link
}

nic_link() {
	rdma link add rxe0 type rxe netdev eth0
	until ibv_devinfo -v -d rxe0 | grep -q 'GID\[ *1\]'; do sleep 0.1; done
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
