# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# netns.sh - the lab's engine without Docker: a container is a network, mount, PID, IPC and UTS
# namespace over the machine's own root file system. Sourced by lab.

netns_host_up() {
	ip -n "$LAB_ID-$1" link add br0 type bridge forward_delay 0
	ip -n "$LAB_ID-$1" addr add "$(lab_net).1/24" dev br0
	ip -n "$LAB_ID-$1" link set br0 up
}

netns_container_up() {
	local host=${1%c*} ns=$LAB_ID-$1 dir=$FF_LAB/$1

	netns_add "$ns"
	ip -n "$LAB_ID-$host" link add "v$1" master br0 up type veth peer name eth0 netns "$ns"
	ip -n "$ns" addr add "$(container_ip "$1")/24" dev eth0
	ip -n "$ns" link set eth0 up
	ip -n "$ns" route add default via "$(lab_net).1"
	write_hosts >"$dir/hosts"
	setsid nsenter --net="/run/netns/$ns" unshare --mount --pid --ipc --uts --fork \
		"$LAB_DIR/netns-init" "$1" "$dir" "$FF_LAB/$host/run/containers/$1" "$BUILD/lib" \
		</dev/null >"$dir/init.log" 2>&1 &
	try_for 10 test -e "$dir/pid" || die "container $1 did not start: $(cat "$dir/init.log")"
}

netns_exec() {
	local pid

	pid=$(<"$FF_LAB/$1/pid")
	shift
	exec "$NSRUN" "$pid" "$@"
}

netns_container_down() {
	netns_del "$LAB_ID-$1"
}

netns_host_down() {
	:
}
