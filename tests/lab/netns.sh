# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# netns.sh - the lab's engine without Docker: a container is a network, mount, PID, IPC and UTS
# namespace over the machine's own root file system. Sourced by lab.

netns_host_up() {
	local ns=$LAB_ID-$1
	ip -n "$ns" -batch - <<-IP
	link add br0 type bridge forward_delay 0
	addr add $(gateway_ip "$1")/24 dev br0
	link set br0 up
	IP
	! has_fabric || fabric_join_bridge "$1" br0
}

netns_container_up() {
	local host name ns=$LAB_ID-$1 dir=$FF_LAB/$1
	name=$(identity "$1")
	host=$(container_host "$1")

	ip netns add "$ns"
	ip -n "$LAB_ID-$host" link add "v$1" master br0 up \
		type veth peer name eth0 address "$(container_mac "$1")" netns "$ns"
	ip -n "$ns" -batch - <<-IP
	link set lo up
	addr add $(container_ip "$1")/24 dev eth0
	link set eth0 up
	route add default via $(gateway_ip "$host")
	IP
	write_hosts >"$dir/hosts"
	rm -f "$dir/pid"
	setsid nsenter --net="/run/netns/$ns" unshare --mount --pid --ipc --uts --fork \
		"$NSINIT" "$name" "$dir" "$FF_LAB/$host/run/containers/$name" "$BUILD/lib" \
		</dev/null >"$dir/init.log" 2>&1 &
	try_for 10 test -e "$dir/pid" || die "container $1 did not start: $(cat "$dir/init.log")"
}

netns_exec() {
	local pid

	pid=$(<"$FF_LAB/$1/pid")
	shift
	exec "$NSRUN" "$pid" "$@"
}

# The interface on the host's side by hand: with the namespace it would go a little later.
netns_container_down() {
	ip -n "$LAB_ID-$(container_host "$1")" link del "v$1" 2>/dev/null || true
	netns_del "$LAB_ID-$1"
}

netns_container_stop() {
	netns_container_down "$1"
}

# Nothing of it stayed.
netns_container_start() {
	netns_container_up "$1"
}

netns_host_down() {
	:
}
