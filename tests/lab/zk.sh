#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# zk.sh - ZooKeeper nodes for tests: Debian's ZooKeeper (libzookeeper-java), one small JVM for each.
#
# Sourced by lab for the functions below (it brings try_for, alive, gone and die of common.sh); unit
# tests and people run it:
#
#	zk.sh up DIR [--nodes N] [--port PORT] [--nosync]	an ensemble on 127.0.0.1, 127.0.0.2, ...
#	zk.sh down DIR				all of it, and DIR
#	zk.sh kill|term|stop|cont DIR N		a signal to node N, 0 the first; the first two wait
#	zk.sh start DIR N			node N again, with its data
#	zk.sh save|restore DIR N	copies the data of node N, which does not run, or brings the copy back
#	zk.sh mode|pid|log DIR N		leader, follower or standalone; its process; its log
#	zk.sh ask DIR N WORD			what it says to a four-letter word
#
# `up` prints what follows "zookeeper:" in an option of ours and ends when the ensemble serves. It
# ends with 77 where java or ZooKeeper is missing. A node's folder has zoo.cfg zk.log pid data/ and
# `node`, which is how it was started.
#
# The nodes are for tests: ticks are short, so that a dead one is noticed and a leader elected within
# a second or two, sessions may be as short as a second, and --nosync leaves out the disk.

ZK_JAR=/usr/share/java/zookeeper.jar
ZK_CLASSPATH=$ZK_JAR:/usr/share/java/slf4j-simple.jar
ZK_LOG=-Dorg.slf4j.simpleLogger
ZK_PORT=2181

# What is missing here for a node, or nothing.
zk_missing() {
	if ! command -v java >/dev/null; then
		echo "no java here (make deps)"
	elif [[ ! -e $ZK_JAR ]]; then
		echo "no ZooKeeper here (make deps)"
	fi
}

# zk_start DIR N NETNS ADDRESSES [PORT [FLAG...]]: starts node N (from 0) of an ensemble whose nodes'
# addresses are the comma-separated list, in that network namespace ("-": this one). Each node uses
# PORT and the two behind it. Does not wait. FLAGs are the JVM's.
zk_start() {
	local dir=$1

	mkdir -p "$dir/data" || return
	printf '%s\n' "$@" >"$dir/node"
	zk_config "$@"
	zk_again "$dir"
}

zk_config() {
	local dir=$1 n=$2 port=${5:-$ZK_PORT} addresses i

	IFS=, read -ra addresses <<<"$4"
	echo "$n" >"$dir/data/myid"
	{
		echo "tickTime=500"
		echo "initLimit=20"
		echo "syncLimit=6"
		echo "minSessionTimeout=1000"
		echo "maxSessionTimeout=60000"
		echo "maxClientCnxns=0"
		echo "dataDir=$dir/data"
		echo "clientPort=$port"
		echo "clientPortAddress=${addresses[n]}"
		echo "autopurge.snapRetainCount=3"
		echo "autopurge.purgeInterval=1"
		echo "admin.enableServer=false"
		echo "4lw.commands.whitelist=*"
		for i in "${!addresses[@]}"; do
			((${#addresses[@]} == 1)) ||
				echo "server.$i=${addresses[i]}:$((port + 1)):$((port + 2))"
		done
	} >"$dir/zoo.cfg"
}

# zk_again DIR: starts a node that was started before, with the data that it has.
zk_again() {
	local dir=$1 node enter=()

	mapfile -t node <"$dir/node"
	[[ ${node[2]} == - ]] || enter=(nsenter "--net=/run/netns/${node[2]}")
	# What a kill -9 left half-written is ZooKeeper's to sort out; the lock is the process itself.
	setsid "${enter[@]}" java -Xms16m "-Xmx${ZK_HEAP:-128m}" -XX:+UseSerialGC \
		-XX:TieredStopAtLevel=1 -XX:-UsePerfData -Xshare:auto -Djava.awt.headless=true \
		-Dzookeeper.jmx.log4j.disable=true -Dzookeeper.fastleader.maxNotificationInterval=1000 \
		$ZK_LOG.showDateTime=true $ZK_LOG.dateTimeFormat=HH:mm:ss.SSS $ZK_LOG.showThreadName=false \
		$ZK_LOG.showShortLogName=true "${node[@]:5}" -cp "$ZK_CLASSPATH" \
		org.apache.zookeeper.server.quorum.QuorumPeerMain "$dir/zoo.cfg" \
		</dev/null >>"$dir/zk.log" 2>&1 &
	echo $! >"$dir/pid"
}

zk_pid() {
	[[ -e $1/pid ]] && cat "$1/pid"
}

# zk_ask DIR WORD: the answer to a four-letter word; false when nobody answers.
zk_ask() {
	local dir=$1 node addresses enter=()

	mapfile -t node <"$dir/node"
	IFS=, read -ra addresses <<<"${node[3]}"
	[[ ${node[2]} == - ]] || enter=(nsenter "--net=/run/netns/${node[2]}")
	# shellcheck disable=SC2016
	timeout 5 "${enter[@]}" bash -c \
		'exec 3<>"/dev/tcp/$0/$1" && echo "$2" >&3 && cat <&3' \
		"${addresses[node[1]]}" "${node[4]:-$ZK_PORT}" "$2" 2>/dev/null
}

# leader, follower or standalone; nothing while it does not serve.
zk_mode() {
	zk_ask "$1" srvr | sed -n 's/^Mode: //p'
}

zk_serves() {
	[[ -n $(zk_mode "$1") ]]
}

# zk_wait DIR...: until each node serves; says why when one does not.
zk_wait() {
	local dir

	for dir; do
		if ! try_for 40 zk_serves_or_ended "$dir" || ! zk_serves "$dir"; then
			echo "the ZooKeeper node in $dir does not serve; its log ends:" >&2
			tail -n 5 "$dir/zk.log" >&2
			return 1
		fi
	done
}

zk_serves_or_ended() {
	zk_serves "$1" || gone "$(zk_pid "$1")"
}

# zk_stop DIR SIGNAL: sends it to the node, and for KILL and TERM waits for its end.
zk_stop() {
	local dir=$1 signal=$2 pid

	pid=$(zk_pid "$dir") || return 0
	if alive "$pid" && [[ $(tr '\0' ' ' <"/proc/$pid/cmdline") == *"$dir/zoo.cfg"* ]]; then
		kill "-$signal" "$pid" 2>/dev/null || true
		case $signal in
		KILL | TERM)
			kill -CONT "$pid" 2>/dev/null || true
			try_for 10 gone "$pid" || kill -KILL "$pid" 2>/dev/null || true
			;;
		esac
	fi
	case $signal in
	KILL | TERM) rm -f "$dir/pid" ;;
	esac
}

# ---- as a command ------------------------------------------------------------------------------

zk_up() {
	local dir nodes=3 port=$ZK_PORT flags=() addresses=() n list why

	dir=$(readlink -m "$1")
	shift
	while (($#)); do
		case $1 in
		--nodes) nodes=$2 && shift ;;
		--port) port=$2 && shift ;;
		--nosync) flags=(-Dzookeeper.forceSync=no) ;;
		*) die "up: unknown option '$1'" ;;
		esac
		shift
	done
	why=$(zk_missing)
	if [[ -n $why ]]; then
		echo "$why"
		exit 77
	fi
	for ((n = 0; n < nodes; n++)); do
		addresses+=("127.0.0.$((n + 1))")
	done
	list=$(IFS=, && echo "${addresses[*]}")
	for ((n = 0; n < nodes; n++)); do
		zk_start "$dir/$n" "$n" - "$list" "$port" "${flags[@]}"
	done
	if ! zk_wait "$dir"/[0-9]*; then
		zk_down "$dir"
		exit 1
	fi
	printf '%s\n' "${addresses[@]/%/:$port}" | paste -sd,
}

zk_down() {
	local node

	for node in "$1"/[0-9]*/; do
		zk_stop "${node%/}" KILL
	done
	rm -rf "$1"
}

zk_main() {
	local command=${1:-} dir=${2:-} node=${2:-}/${3:-}

	[[ -n $dir ]] || die "usage: zk.sh up|down|kill|term|stop|cont|start|mode|pid|log|ask DIR ..."
	dir=$(readlink -m "$dir")
	node=$dir/${3:-}
	case $command in
	up | down | ask) ;;
	*) [[ -e $node/node ]] || die "no node '${3:-}' in $dir" ;;
	esac
	case $command in
	up) shift && zk_up "$@" ;;
	down) zk_down "$dir" ;;
	save) cp -a "$node/data/version-2" "$node/saved" ;;
	restore) rm -r "$node/data/version-2" && cp -a "$node/saved" "$node/data/version-2" ;;
	kill) zk_stop "$node" KILL ;;
	term) zk_stop "$node" TERM ;;
	stop) zk_stop "$node" STOP ;;
	cont) zk_stop "$node" CONT ;;
	start) zk_again "$node" && zk_wait "$node" ;;
	mode) zk_mode "$node" ;;
	pid) zk_pid "$node" ;;
	log) cat "$node/zk.log" ;;
	ask) zk_ask "$node" "$4" ;;
	*) die "no command '$command'" ;;
	esac
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
	set -u -o pipefail
	# shellcheck source=tests/lab/common.sh
	. "$(dirname "$(readlink -f "$0")")/common.sh"
	die() {
		echo "zk.sh: $*" >&2
		exit 2
	}
	zk_main "$@"
fi
