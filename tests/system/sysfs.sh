#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# sysfs.sh - the device's files in a container, as the kernel has them for a NIC: what they say, that
# counters follow the traffic, and that nobody in the container can write there.
. "$(dirname "$0")/../rig/shell/lab.sh"

DIR=/run/freeflow/sys/class/infiniband/ff0
FILES=$DIR/ports/1

file() { # CONTAINER PATH: its text
	inside "$1" cat "$2"
}

step "node and port are what the verbs say"
inside "$A" ibv_devinfo -v >"$OUT/info" || fail "ibv_devinfo"
guid=$(awk '$1 == "node_guid:" { print $2 }' "$OUT/info")
[[ $(file "$A" "$DIR"/node_guid) == "$guid" && $guid == ????:????:????:???? ]] || fail "node_guid $guid"
[[ $(file "$A" "$DIR"/node_type) == "1: CA" ]] || fail "node_type"
[[ $(file "$A" "$DIR"/fw_ver) == "$(awk '$1 == "fw_ver:" { print $2 }' "$OUT/info")" ]] || fail "fw_ver"
[[ $(file "$A" "$FILES"/state) == "4: ACTIVE" && $(file "$A" "$FILES"/phys_state) == "5: LinkUp" ]] ||
	fail "state"
grep -q "link_layer:[[:space:]]*$(file "$A" "$FILES"/link_layer)" "$OUT/info" || fail "link_layer"
[[ $(($(file "$A" "$FILES"/lid))) == $(awk '$1 == "port_lid:" { print $2 }' "$OUT/info") ]] || fail "lid"
ip=$("$LAB" ip "$A")
# shellcheck disable=SC2086
printf -v gid '0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x' ${ip//./ }
[[ $(file "$A" "$FILES"/gids/0) == "$gid" ]] || fail "gid: $(file "$A" "$FILES"/gids/0), not $gid"
[[ $(inside "$A" sh -c "tail -c 1 $FILES/rate | od -An -tx1") == *0a ]] || fail "no newline"

step "the device's folder, and the ways there"
there() { # PATH: where it leads
	inside "$A" readlink -f "$1"
}
pci=$(there "$DIR"/device)
[[ $pci == */ff00:00:00.0 && $(there "$DIR"/../..) == "$pci" ]] || fail "$DIR/device is $pci"
[[ $(there "$pci"/infiniband/ff0) == "$(there "$DIR")" ]] || fail "$pci/infiniband/ff0"
for f in vendor device class numa_node local_cpus local_cpulist; do
	[[ -n $(file "$A" "$pci/$f") ]] || fail "$pci/$f"
done
cpus=0-$(($(getconf _NPROCESSORS_CONF) - 1))
[[ $(file "$A" "$pci"/local_cpulist) == "${cpus%-0}" ]] ||
	fail "local_cpulist: $(file "$A" "$pci"/local_cpulist)"
VERBS=/run/freeflow/sys/class/infiniband_verbs
[[ $(file "$A" $VERBS/abi_version) == 6 && $(file "$A" $VERBS/uverbs_ff0/ibdev) == ff0 &&
	$(file "$A" $VERBS/uverbs_ff0/abi_version) == 1 && $(there $VERBS/uverbs_ff0/device) == "$pci" ]] ||
	fail "$VERBS"
types=$(inside "$A" sh -c "cat $FILES/gid_attrs/types/*" | sort -u)
[[ $types == $'IB/RoCE v1\nRoCE v2' ]] || fail "types: $types"

step "counters follow the traffic, in words of 4 bytes"
counters() { # are they ffctl's?
	local tx rx sends
	read -r tx rx sends <<<"$(counter "$1" tx_bytes rx_bytes send_ops)"
	[[ $(file "$1" "$FILES"/counters/port_xmit_data) == $((tx / 4)) &&
		$(file "$1" "$FILES"/counters/port_rcv_data) == $((rx / 4)) &&
		$(file "$1" "$FILES"/hw_counters/rdma_sends) == "$sends" ]]
}
sends=$(file "$A" "$FILES"/hw_counters/rdma_sends)
packets=$(file "$A" "$FILES"/counters/port_xmit_packets)
pair "$B" "$A" ib_send_bw -F -n 1000 -s 65536
wait_for 60 counters "$A" || fail "counters of $A"
wait_for 60 counters "$B" || fail "counters of $B"
(($(file "$A" "$FILES"/hw_counters/rdma_sends) - sends >= 1000)) || fail "rdma_sends"
(($(file "$A" "$FILES"/counters/port_xmit_packets) - packets >= 1000 * 16)) || fail "port_xmit_packets"

step "nobody in there writes them"
inside "$A" sh -c "echo 0 >$FILES/counters/port_xmit_data" 2>/dev/null && fail "written"
inside "$A" sh -c "touch $DIR/new" 2>/dev/null && fail "a new file"

step "the interface of a GID is the one that has its address, also after it was renamed"
inside "$A" ibv_devinfo >/dev/null || fail "ibv_devinfo"
old=$(file "$A" "$FILES"/gid_attrs/ndevs/0)
inside "$A" test -e "/sys/class/net/$old" || fail "there is no $old"
[[ $(inside "$A" ls "$pci"/net) == "$old" && $(there "$pci/net/$old") == "$(there "/sys/class/net/$old")" ]] ||
	fail "$pci/net: $(inside "$A" ls -l "$pci"/net)"
route=$(inside "$A" ip route show default 2>/dev/null)
if inside "$A" sh -c "ip link set $old down && ip link set $old name net1 && ip link set net1 up" 2>/dev/null; then
	inside "$A" ibv_devinfo >/dev/null || fail "ibv_devinfo"
	new=$(inside "$A" sh -c "cat $FILES/gid_attrs/ndevs/[0-3]; ls $pci/net" | sort -u)
	inside "$A" sh -c "ip link set net1 down && ip link set net1 name $old && ip link set $old up" || fail "ip link"
	# shellcheck disable=SC2086 # the words of a route
	[[ -z $route ]] || inside "$A" ip route replace $route
	[[ $new == net1 ]] || fail "ndevs say $new"
	inside "$A" ibv_devinfo >/dev/null || fail "ibv_devinfo"
	[[ $(file "$A" "$FILES"/gid_attrs/ndevs/0) == "$old" ]] || fail "ndevs do not say $old"
else
	step "interfaces cannot be renamed there"
fi

if inside "$A" test -d /sys/class/infiniband; then
	step "and in /sys/class/infiniband"
	[[ $(file "$A" /sys/class/infiniband/ff0/node_guid) == "$guid" ]] || fail "node_guid in /sys"
	[[ $(there /sys/class/infiniband/ff0/device/infiniband/ff0) == "$(there /sys/class/infiniband/ff0)" ]] ||
		fail "/sys/class/infiniband/ff0/device"
	[[ $(inside "$A" ls /sys/class/infiniband) == ff0 ]] || fail "$(inside "$A" ls /sys/class/infiniband)"
	[[ $(file "$A" /sys/class/infiniband_verbs/uverbs_ff0/ibdev) == ff0 ]] || fail "infiniband_verbs"
	inside "$A" sh -c "touch /sys/class/infiniband/new" 2>/dev/null && fail "written"
	[[ $(inside "$A" cat /sys/class/net/lo/mtu) == 65536 ]] || fail "/sys/class/net"
else
	step "there is no /sys/class/infiniband to mount it at"
fi
exit 0
