# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# orchestrator.sh - what the lab's routers share. Sourced by lab.
#
# One host, embedded store: the orchestrator is in the router's process. Several hosts: `ffo`, a
# daemon with the same store, at a place of its own on the fabric. Zookeeper: an ensemble of three
# (zk.sh), each at its own place; every router has its own orchestrator in front of it.

FFO_PORT=7470

# The nodes that are processes of their own.
orch_nodes() {
	has_fabric || return 0
	if [[ $(lab_get store) == zookeeper ]]; then
		printf 'zk%d\n' 0 1 2
	else
		echo ffo
	fi
}

# For ffr.conf.
orch_address() {
	local n list=
	if ! has_fabric; then
		echo embedded
	elif [[ $(lab_get store) == zookeeper ]]; then
		for n in $(orch_nodes); do
			list+=,$(fabric_ip "$n"):$ZK_PORT
		done
		echo "zookeeper:${list#,}?auth=$FF_LAB/zk.auth"
	else
		ffo_address
	fi
}

# The node that `kill orchestrator WHICH` means: nothing or a host's name where there is one for all,
# a number for one of the ensemble.
orch_node() { # [WHICH]
	local which=${1:-} nodes
	nodes=$(orch_nodes)
	[[ -n $nodes ]] || die "the orchestrator is in the router's process here (kill router h0)"
	if [[ $nodes == ffo ]]; then
		[[ -z $which || $which =~ ^(ffo|0|h[0-9]+)$ ]] || die "no orchestrator '$which' (there is one, ffo)"
		echo ffo
		return
	fi
	which=zk${which#zk}
	grep -qx "$which" <<<"$nodes" ||
		die "which orchestrator? '${1:-}' is none of 0, 1 and 2"
	echo "$which"
}

orch_up() {
	local n why nodes
	mapfile -t nodes < <(orch_nodes)
	((${#nodes[@]})) || return 0
	why=$([[ $(lab_get store) != zookeeper ]] || zk_missing)
	[[ -z $why ]] || die "--store zookeeper: $why"
	[[ ${nodes[0]} == ffo ]] || (umask 077 && echo "digest:lab:$RANDOM$RANDOM" >"$FF_LAB/zk.auth")
	for n in "${nodes[@]}"; do
		netns_add "$LAB_ID-$n"
		fabric_join "$n"
	done
	for n in "${nodes[@]}"; do
		orch_launch "$n"
	done
	orch_wait "${nodes[@]}"
}

# A node that was there before has its data.
orch_launch() { # NODE
	local n addresses
	if [[ $1 == ffo ]]; then
		ffo_launch
	elif [[ -e $FF_LAB/$1/node ]]; then
		zk_again "$FF_LAB/$1"
	else
		addresses=$(for n in $(orch_nodes); do fabric_ip "$n"; done | paste -sd ,)
		zk_start "$FF_LAB/$1" "${1#zk}" "$LAB_ID-$1" "$addresses" "$ZK_PORT" \
			-Dzookeeper.forceSync=no
	fi
}

orch_wait() { # NODE...
	if [[ $1 == ffo ]]; then
		{ try_for 10 ffo_ready_or_ended && ffo_ready; } ||
			die "ffo does not start; its log ends: $(tail -n 5 "$FF_LAB/ffo/ffo.log")"
	else
		zk_wait "${@/#/$FF_LAB/}" || die "ZooKeeper does not start"
	fi
}

# Nodes that run in vain serve nobody, and none of them can be waited for.
orch_majority() {
	local n all=0 running=0
	for n in $(orch_nodes); do
		all=$((all + 1))
		! alive "$(orch_pid "$n")" || running=$((running + 1))
	done
	((2 * running > all))
}

orch_pid() { # NODE
	lab_get "$1/pid"
}

# SIGNAL, and for one that ends it wait for the end.
orch_stop() { # NODE SIGNAL
	local pid
	pid=$(orch_pid "$1") || return 0
	if [[ $1 == zk* ]]; then
		zk_stop "$FF_LAB/$1" "$2"
		return
	fi
	if alive "$pid" && [[ $(readlink "/proc/$pid/exe") == */ffo* ]]; then
		stop_process ffo "$pid" "$2"
	fi
	rm -f "$FF_LAB/$1/pid"
}

# ---- ffo ---------------------------------------------------------------------------------------

ffo_address() {
	local scheme=tcp
	! has_tls || scheme=tls
	echo "$scheme:$(fabric_ip ffo):$FFO_PORT"
}

ffo_launch() {
	local dir=$FF_LAB/ffo env files=()

	mkdir -p "$dir"
	if has_tls; then
		[[ -e $dir/host.pem ]] || tls_certify ffo
		files=(--cert "$dir/host.pem" --key "$dir/host.key" --ca "$FF_LAB/tls/ca.pem"
			--crl "$FF_LAB/tls/crl.pem")
	fi
	mapfile -t env < <(sanitizer_env "$dir")
	setsid nsenter --net="/run/netns/$LAB_ID-ffo" env "${env[@]}" "$BUILD/bin/ffo" \
		--store "$dir/ffo.db" --listen "$(ffo_address)" "${files[@]}" \
		--pool4 "$(lab_net).0/24" </dev/null >>"$dir/ffo.log" 2>&1 &
	echo $! >"$dir/pid"
}

ffo_ready() {
	listening "$(orch_pid ffo)" "$FFO_PORT"
}

ffo_ready_or_ended() {
	ffo_ready || gone "$(orch_pid ffo)"
}
