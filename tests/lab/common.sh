# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# common.sh - the lab's state on disk and small helpers. Sourced by lab; sets no trap, runs nothing.
#
# $FF_LAB/
#	engine mode containers	how it was brought up
#	docker.*, docker/	a private Docker engine, if there is one
#	h0/			host: ffr.conf ffr.log ffr.pid admin.sock run/ (the router's) and, built
#				with sanitizers, their reports san.*
#	h0c0/			container: ip, pid (its first process), hosts, flags (docker run)
#
# All names outside of it begin with $LAB_ID, made from the folder's path: network namespaces
# $LAB_ID-h0, $LAB_ID-h0c0; Docker containers and network likewise.

die() {
	echo "lab: $*" >&2
	exit 1
}

say() {
	echo "lab: $*" >&2
}

# try_for SECONDS CMD...: until CMD succeeds; false when the time is over.
try_for() {
	local end=$((SECONDS + $1))
	shift
	until "$@"; do
		((SECONDS < end)) || return 1
		sleep 0.02
	done
}

# A process that ended and waits for its parent to notice is not alive.
alive() {
	local stat
	[[ -n ${1:-} ]] && read -r stat 2>/dev/null <"/proc/$1/stat" && [[ $stat != *") Z "* ]]
}

gone() {
	! alive "$1"
}

lab_get() {
	[[ -e $FF_LAB/$1 ]] && cat "$FF_LAB/$1"
}

lab_set() {
	echo "$2" >"$FF_LAB/$1"
}

need_up() {
	[[ -e $FF_LAB/up ]] || die "there is no lab in $FF_LAB (lab up makes one)"
}

need_host() {
	need_up
	[[ ${1:-} =~ ^h[0-9]+$ && -d $FF_LAB/$1 ]] || die "no host '${1:-}' (there is h0)"
}

need_container() {
	need_up
	[[ ${1:-} =~ ^h[0-9]+c[0-9]+$ && -d $FF_LAB/$1 ]] ||
		die "no container '${1:-}' (there are:$(containers | sed 's/^/ /' | tr -d '\n'))"
}

containers() {
	find "$FF_LAB" -maxdepth 1 -name 'h*c*' -printf '%f\n' 2>/dev/null | sort -V
}

# The lab's subnet, from its name: neighbours on one machine rarely share it, and only the engine
# that is the machine's own Docker would notice.
lab_net() {
	local n=$((0x${LAB_ID#ff}))

	echo "10.$((128 + n % 64)).$((n / 64 % 256))"
}

container_ip() {
	local c=${1#*c}

	echo "$(lab_net).$((c + 2))"
}

write_hosts() {
	local c

	echo "127.0.0.1 localhost"
	for c in $(containers); do
		echo "$(container_ip "$c") $c"
	done
}

# ---- network namespaces ------------------------------------------------------------------------

netns_exists() {
	[[ -e /run/netns/$1 ]]
}

netns_add() {
	ip netns add "$1"
	ip -n "$1" link set lo up
}

# Kills what lives in a namespace and takes it away.
netns_del() {
	local pids

	netns_exists "$1" || return 0
	pids=$(ip netns pids "$1")
	# shellcheck disable=SC2086
	[[ -z $pids ]] || kill -KILL $pids 2>/dev/null || true
	try_for 5 netns_empty "$1" || say "processes stay in $1: $(ip netns pids "$1" | tr '\n' ' ')"
	ip netns del "$1"
}

netns_empty() {
	[[ -z $(ip netns pids "$1" 2>/dev/null) ]]
}
