# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# trixie.sh - Debian 13's engines on this machine, whatever its own are: Docker 26 and containerd 1.7, with CDI. Sourced after
# lab.sh.
#
# Their packages are extracted once, and not installed. An engine runs in the network namespace of a lab's host and in a
# mount namespace of its own, where /usr is that of the packages and what an engine keeps in /run is its own; the rest is the machine's. So
# whatever it mounts, and the names that it gives network namespaces, go with its last process.
. "$(dirname "${BASH_SOURCE[0]}")/cache.sh"

TRIXIE_PACKAGES=docker.io,docker-cli,docker-compose,containerd,runc,iptables,containernetworking-plugins
TRIXIE_PACKAGES+=,bash,dash,coreutils,mount,util-linux,iproute2,libc-bin,libjansson4 # the last one for ff-hook

# Prints the folder with their /usr.
trixie_root() {
	cache_once "engines-trixie-$(cksum <<<"$TRIXIE_PACKAGES" | cut -d ' ' -f 1)" trixie_unpack
}

# What maintainer scripts would do is not done: of the alternatives the engines need these.
trixie_unpack() {
	local uri tool
	uri=$(debian_uri)
	command -v mmdebstrap >/dev/null && [[ -n $uri ]] || return 1
	nice mmdebstrap --quiet --mode=root --format=directory --variant=extract --include="$TRIXIE_PACKAGES" \
		trixie made "deb $uri trixie main" || return 1
	for tool in {iptables,ip6tables}{,-save,-restore}; do
		ln -s xtables-nft-multi "made/usr/sbin/$tool" || return 1
	done
	rm -rf made/{etc,var} made/usr/share/{doc,man,locale,info}
}

# Becomes CMD. A subshell's: its number is the program's then.
trixie_become() { # ROOT HOST CMD...
	# shellcheck disable=SC2016
	exec nsenter --net="/run/netns/$(lab_id "$FF_LAB")-$2" unshare --mount --propagation private /bin/bash -ec '
		mkdir -p /run/containerd
		mount -t tmpfs tmpfs /run/containerd
		mount --bind -o ro "$0/usr" /usr
		exec "$@"' "$1" "${@:3}"
}

# ---- Docker ------------------------------------------------------------------------------------

# An engine in that folder, which has specifications in FOLDER/cdi; docker is its client. False where it does not start.
trixie_docker_start() { # ROOT HOST FOLDER
	DOCKER_FOLDER=$3
	mkdir -p "$3/cdi"
	cat >"$3/daemon.json" <<-JSON
		{"features": {"cdi": true}, "cdi-spec-dirs": ["$3/cdi"]}
	JSON
	trixie_become "$1" "$2" dockerd --config-file "$3/daemon.json" -H "unix://$3/docker.sock" --data-root "$3/data" \
		--exec-root "$3/exec" --pidfile "$3/pid" </dev/null >"$3/log" 2>&1 &
	DOCKER_PID=$!
	docker=(nsenter --target "$DOCKER_PID" --mount docker -H "unix://$3/docker.sock")
	until_true 60 trixie_docker_up && running "$DOCKER_PID"
}

trixie_docker_up() {
	ended "$DOCKER_PID" || "${docker[@]}" version >/dev/null 2>&1
}

# With all of its containers; those as well that an engine left which was killed.
trixie_docker_stop() {
	local id group
	[[ -n ${DOCKER_PID-} ]] || return 0
	id=$("${docker[@]}" ps -aq 2>/dev/null)
	# shellcheck disable=SC2086
	[[ -z $id ]] || "${docker[@]}" rm -f $id >/dev/null
	kill "$DOCKER_PID" 2>/dev/null
	until_true 20 ended "$DOCKER_PID" || kill -KILL "$DOCKER_PID" 2>/dev/null
	for id in "$DOCKER_FOLDER"/data/containers/*; do
		for group in /sys/fs/cgroup/{pids/,}docker/"${id##*/}"; do
			[[ ! -e $group/cgroup.procs ]] || xargs -r kill -KILL <"$group/cgroup.procs" 2>/dev/null
		done
	done
	DOCKER_PID=
}
