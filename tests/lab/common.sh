# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# common.sh - the lab's state on disk and small helpers. Sourced by lab; sets no trap, runs nothing.
#
# $FF_LAB/
#	engine mode images store	how it was brought up
#	fabric				there is a network between hosts, with these nodes on it (fabric.sh)
#	h0/ h1/				a host: ffr.conf ffr.log ffr.pid admin.sock run/ (the router's) and,
#					built with sanitizers, their reports san.*; a private Docker
#					engine's docker.* and docker/
#	tls/				the lab's certificate authority
#	ffo/ zk0/ zk1/ zk2/		nodes of the orchestrator where they are processes of their own
#	h0c0/				container: host (where it is now), ip, pid (its first process),
#					hosts, flags (docker run)
#
# All names outside of it begin with $LAB_ID, made from the folder's path: network namespaces
# $LAB_ID-h0, $LAB_ID-h0c0, $LAB_ID-net (the fabric's switch), $LAB_ID-ffo; Docker containers and
# network likewise.

die() {
	echo "lab: $*" >&2
	exit 1
}

say() {
	echo "lab: $*" >&2
}

# try_for SECONDS CMD...: until CMD succeeds; false when the time is over.
try_for() {
	local end=$((SECONDS + $1 * ${FF_SLOW:-1})) # FF_SLOW: in an emulated machine
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
	[[ -e $FF_LAB/$1 ]] && echo "$(<"$FF_LAB/$1")"
}

lab_set() {
	echo "$2" >"$FF_LAB/$1"
}

need_up() {
	[[ -e $FF_LAB/up ]] || die "there is no lab in $FF_LAB (lab up makes one)"
}

need_host() {
	need_up
	[[ ${1:-} =~ ^h[0-9]+$ && -d $FF_LAB/$1 ]] ||
		die "no host '${1:-}' (there is: $(hosts | paste -sd ' '))"
}

need_container() {
	need_up
	[[ ${1:-} =~ ^h[0-9]+c[0-9]+b?$ && -d $FF_LAB/$1 ]] ||
		die "no container '${1:-}' (there are:$(containers | sed 's/^/ /' | tr -d '\n'))"
}

hosts() {
	nodes '^h[0-9]+$'
}

containers() {
	nodes '^h[0-9]+c[0-9]+b?$'
}

# Folders of the lab whose names match, in the order of their numbers. Without other commands where that needs
# none: this is called very often.
nodes() { # REGULAR-EXPRESSION
	local path found=()

	for path in "$FF_LAB"/h*; do
		[[ ! ${path##*/} =~ $1 ]] || found+=("${path##*/}")
	done
	if ((${#found[@]} > 10)); then
		printf '%s\n' "${found[@]}" | sort -V
	elif ((${#found[@]})); then
		printf '%s\n' "${found[@]}"
	fi
}

# Who a container is for the routers. h0c0b is a second h0c0, on another host, which should not be.
identity() {
	echo "${1%b}"
}

is_twin() {
	[[ $1 == *b ]]
}

# The host that a container is on, or was on last; its name tells where it began.
container_host() {
	lab_get "$1/host" || echo "${1%c*}"
}

# The lab's subnet, from its name: neighbours on one machine rarely share it, and only the engine
# that is the machine's own Docker would notice.
lab_net() {
	local n=$((0x${LAB_ID#ff}))

	echo "10.$((128 + n % 64)).$((n / 64 % 256))"
}

# The containers of all hosts are in that one subnet, so that an address can move: first the hosts'
# gateways, then as many addresses for each host.
containers_per_host() { # HOSTS
	echo $((($1 == 1 ? 250 : 253 - $1) / $1))
}

gateway_ip() { # HOST
	echo "$(lab_net).$((${1#h} + 1))"
}

container_ip() {
	local hosts name=${1%b} host=${1%c*}

	mapfile -t hosts < <(hosts)
	echo "$(lab_net).$((${#hosts[@]} + 1 + ${host#h} * $(containers_per_host ${#hosts[@]}) + ${name#*c}))"
}

# It goes with the address, as Docker has it: who knows the container need not learn it again.
container_mac() {
	local ip
	ip=$(container_ip "$1")
	# shellcheck disable=SC2086
	printf '02:42:%02x:%02x:%02x:%02x\n' ${ip//./ }
}

# Addresses and names, of which every container has the whole list: from files, for there may be
# hundreds.
hosts_list() {
	local c ip

	for c in $(containers); do
		is_twin "$c" && continue
		read -r ip <"$FF_LAB/$c/ip"
		echo "$ip $c"
	done
}

write_hosts() {
	echo "127.0.0.1 localhost"
	hosts_list
}

# ---- network namespaces ------------------------------------------------------------------------

netns_exists() {
	[[ -e /run/netns/$1 ]]
}

netns_add() {
	ip netns add "$1"
	ip -n "$1" link set lo up
}

netns_run() { # NAMESPACE CMD...
	local ns=$1
	shift
	nsenter --net="/run/netns/$ns" "$@"
}

# Kills what lives in a namespace and takes it away.
netns_del() {
	local pids

	netns_exists "$1" || return 0
	if [[ /run/netns/$1 -ef /proc/1/ns/net ]]; then # the machine's own (lab up --backend verbs)
		ip link del br0 2>/dev/null || true
		ip netns del "$1"
		return
	fi
	pids=$(ip netns pids "$1")
	# shellcheck disable=SC2086
	[[ -z $pids ]] || kill -KILL $pids 2>/dev/null || true
	try_for 5 netns_empty "$1" || say "processes stay in $1: $(ip netns pids "$1" | tr '\n' ' ')"
	ip netns del "$1"
}

netns_empty() {
	[[ -z $(ip netns pids "$1" 2>/dev/null) ]]
}

# ---- processes ---------------------------------------------------------------------------------

# What a daemon's environment needs, one a line: sanitizers report into files; a leak counts, so it
# must be able to end by itself.
sanitizer_env() { # FOLDER
	echo "ASAN_OPTIONS=log_path=$1/san:detect_leaks=1:abort_on_error=0:exitcode=99"
	echo "UBSAN_OPTIONS=log_path=$1/san:print_stacktrace=1"
	echo "LSAN_OPTIONS=print_suppressions=0"
	echo "TSAN_OPTIONS=log_path=$1/san:suppressions=$TREE/tests/rig/tools/tsan.supp:exitcode=0:history_size=7"
}

# SIGNAL, and wait for the end; TERM lets a sanitized daemon report its leaks. One that hangs says where, with its children,
# and `lab down` fails.
stop_process() { # NAME PID SIGNAL
	kill "-$3" "$2" 2>/dev/null || true
	try_for 30 gone "$2" && return
	say "$1 does not end on SIG$3: killed"
	if [[ $3 == TERM ]]; then
		: >"$FF_LAB/hung"
		# shellcheck disable=SC2046 # a list
		"$TREE/tests/lab/stacks" "$2" $(pgrep -P "$2") >&2 || true
	fi
	kill -KILL "$2" 2>/dev/null || true
	try_for 5 gone "$2" || true
}

# Does somebody listen on that TCP port in a process's network namespace?
listening() { # PID PORT
	cat "/proc/$1/net/tcp" "/proc/$1/net/tcp6" 2>/dev/null |
		awk -v p=":$(printf '%04X' "$2")\$" '$4 == "0A" && $2 ~ p { found = 1 }
			END { exit !found }'
}
