# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# fabric.sh - the network between the lab's hosts. Sourced by lab; a lab of one host with the embedded
# store has none.
#
# A switch is a namespace with two bridges. `fab` joins the routers and the orchestrator's nodes: each
# has fab0 in its own namespace, at the other end a port f-NAME. `con` makes one Ethernet of the
# hosts' container bridges (con0 in br0, port c-NAME): what containers say to each other beside RDMA,
# and an address keeps its meaning on whatever host it is.
#
#	h0: fab0 ---- f-h0 [fab] f-h1 ---- fab0 :h1
#	h0c0 -- br0.con0 ---- c-h0 [con] c-h1 ---- con0.br0 -- h1c0
#
# A host is cut off by closing its ports in the switch: what is sent vanishes without a word, as behind
# a switch that failed, and no carrier is lost.

FABRIC_NET=192.168.200

has_fabric() {
	[[ -e $FF_LAB/fabric ]]
}

fabric_ns() {
	echo "$LAB_ID-net"
}

fabric_ip() { # NODE: h0..., ffo, zk0...
	case $1 in
	ffo) echo "$FABRIC_NET.2" ;;
	zk*) echo "$FABRIC_NET.$((3 + ${1#zk}))" ;;
	h*) echo "$FABRIC_NET.$((10 + ${1#h}))" ;;
	esac
}

fabric_up() {
	local ns b
	ns=$(fabric_ns)
	netns_add "$ns"
	# The switch itself has nothing to say.
	# shellcheck disable=SC2016
	netns_run "$ns" sh -c 'for c in all default; do
		[ ! -d /proc/sys/net/ipv6 ] || echo 1 >/proc/sys/net/ipv6/conf/$c/disable_ipv6; done'
	for b in fab con; do
		ip -n "$ns" link add $b type bridge forward_delay 0
		ip -n "$ns" link set $b up
	done
	: >"$FF_LAB/fabric"
}

# Joins a node, whose namespace is there.
fabric_join() { # NODE
	local ns=$LAB_ID-$1
	ip -n "$(fabric_ns)" link add "f-$1" master fab up type veth peer name fab0 netns "$ns"
	ip -n "$ns" addr add "$(fabric_ip "$1")/24" dev fab0
	ip -n "$ns" link set fab0 up
	echo "$1" >>"$FF_LAB/fabric"
}

# Joins a host's container bridge, whatever made it.
fabric_join_bridge() { # HOST BRIDGE
	local ns=$LAB_ID-$1
	ip -n "$(fabric_ns)" link add "c-$1" master con up type veth peer name con0 netns "$ns"
	ip -n "$ns" link set con0 master "$2" up
}

fabric_nodes() {
	lab_get fabric
}

need_node() {
	has_fabric || die "this lab has no network between hosts (up --hosts 2, or --store zookeeper)"
	fabric_nodes | grep -qx -- "${1:-}" ||
		die "no '${1:-}' on the network (there is: $(fabric_nodes | paste -sd ' '))"
}

# The ports of a node that are in the switch's bridges.
fabric_ports() { # NODE
	ip -n "$(fabric_ns)" -br link | awk -v n="$1" '
		{ sub(/@.*/, "", $1) }
		$1 ~ "^[fc]-" n "$" { print $1 }'
}

# Bridge port states: 0 is disabled, 3 forwarding.
fabric_port_state() { # NODE STATE
	local port
	for port in $(fabric_ports "$1"); do
		bridge -n "$(fabric_ns)" link set dev "$port" state "$2"
	done
}

fabric_cut() { # NODE
	fabric_port_state "$1" 0
}

fabric_is_cut() { # NODE
	has_fabric && bridge -n "$(fabric_ns)" link show dev "f-$1" | grep -q 'state disabled'
}

fabric_heal() { # NODE
	fabric_port_state "$1" 3
	fabric_forget
}

# Forgets behind which port an address is: one moved, or did while nobody could tell.
fabric_forget() {
	local h
	has_fabric || return 0
	ip -n "$(fabric_ns)" link set con type bridge fdb_flush
	for h in $(hosts); do
		ip -n "$LAB_ID-$h" link set br0 type bridge fdb_flush
	done
}
