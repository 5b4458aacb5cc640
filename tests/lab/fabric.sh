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
# a switch that failed, and no carrier is lost. Hosts can be cut off from each other and not from the
# orchestrator, which then takes both for healthy.

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

need_nodes() {
	local node
	has_fabric || die "this lab has no network between hosts (up --hosts 2, or --store zookeeper)"
	(($#)) || die "which host?"
	for node; do
		fabric_nodes | grep >/dev/null -x -- "$node" ||
			die "no '$node' on the network (there is: $(fabric_nodes | paste -sd ' '))"
	done
}

# The ends of a node's cables at the switch.
fabric_cables() { # NODE
	ip -n "$(fabric_ns)" -br link | awk -v n="$1" '
		{ sub(/@.*/, "", $1) }
		$1 ~ "^[fc]-" n "$" { print $1 }'
}

# The ports of the switch that they are in, by themselves or with a slow wire between (fabric_delay).
fabric_ports() { # NODE
	ip -n "$(fabric_ns)" -br link show type bridge_slave | awk -v n="$1" '
		{ sub(/@.*/, "", $1) }
		$1 ~ "^(b-)?[fc]-" n "$" { print $1 }'
}

# How a node is cut off, if it is: `all`, or `peers`, from others that are cut off like that only. A
# disabled port (0) of a bridge is none, isolated ones do not hear each other.
fabric_cut() { # NODE all|peers
	echo "$2" >"$FF_LAB/$1/cut"
	fabric_set_ports "$1"
}

fabric_set_ports() { # NODE
	local port state=3 isolated=off how
	how=$(lab_get "$1/cut") || how=
	[[ $how != all ]] || state=0
	[[ $how != peers ]] || isolated=on
	for port in $(fabric_ports "$1"); do
		bridge -n "$(fabric_ns)" link set dev "$port" state $state isolated $isolated
	done
}

fabric_heal() { # NODE
	rm -f "$FF_LAB/$1/cut"
	fabric_set_ports "$1"
	fabric_forget
}

# What is wrong with a node's cables, for people.
fabric_state() { # NODE
	local delay cut
	delay=$(lab_get "$1/delay") || delay=
	cut=$(lab_get "$1/cut") || cut=
	case $cut in
	all) echo "(cut off)" ;;
	peers) echo "(cut off from peers)" ;;
	*) [[ -z $delay ]] || echo "($delay)" ;;
	esac
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

# ---- delay and loss ----------------------------------------------------------------------------
#
# In each direction of each of the node's cables, by the kernel's netem where it is there, else by a
# wire of our own between cable and switch (netlag.c):
#
#	h0: fab0 ---- f-h0 <netlag> d-f-h0 ---- b-f-h0 [fab]

fabric_delay() { # NODE MICROSECONDS PARTS-PER-MILLION
	local cable
	fabric_delay_off "$1"
	for cable in $(fabric_cables "$1"); do
		fabric_netem "$1" "$cable" "$2" "$3" || fabric_netlag "$cable" "$2" "$3"
	done
	echo "$((10#$2)) us, $(percent "$3") % lost" >"$FF_LAB/$1/delay"
	fabric_set_ports "$1"
}

fabric_delay_off() { # NODE
	local cable pid
	for cable in $(fabric_cables "$1"); do
		if pid=$(lab_get "netlag.$cable"); then
			stop_process "netlag of $cable" "$pid" KILL
			rm -f "$FF_LAB/netlag.$cable"
			ip -n "$(fabric_ns)" link del "b-$cable"
			ip -n "$(fabric_ns)" link set "$cable" master "$(fabric_bridge "$cable")"
		else
			tc -n "$(fabric_ns)" qdisc del dev "$cable" root 2>/dev/null || true
			tc -n "$LAB_ID-$1" qdisc del dev "$(fabric_bridge "$cable")0" root 2>/dev/null || true
		fi
	done
	rm -f "$FF_LAB/$1/delay"
	fabric_set_ports "$1"
}

fabric_bridge() { # CABLE
	if [[ $1 == f-* ]]; then echo fab; else echo con; fi
}

fabric_netem() { # NODE CABLE MICROSECONDS PPM
	local netem=(root netem delay "${3}us" loss "$(percent "$4")%" limit 100000)
	tc -n "$(fabric_ns)" qdisc replace dev "$2" "${netem[@]}" 2>/dev/null &&
		tc -n "$LAB_ID-$1" qdisc replace dev "$(fabric_bridge "$2")0" "${netem[@]}"
}

fabric_netlag() { # CABLE MICROSECONDS PPM
	local ns log=$FF_LAB/netlag.log
	ns=$(fabric_ns)
	ip -n "$ns" link add "b-$1" type veth peer name "d-$1"
	ip -n "$ns" link set "$1" nomaster
	ip -n "$ns" link set "d-$1" up
	ip -n "$ns" link set "b-$1" master "$(fabric_bridge "$1")" up
	: >"$log"
	setsid nsenter --net="/run/netns/$ns" "$NETLAG" "$1" "d-$1" "$2" "$3" </dev/null >"$log" 2>&1 &
	echo $! >"$FF_LAB/netlag.$1"
	try_for 5 grep -q ready "$log" || die "netlag does not start: $(<"$log")"
}

percent() { # PPM
	printf '%d.%04d' $(($1 / 10000)) $(($1 % 10000))
}
