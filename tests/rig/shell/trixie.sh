# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# trixie.sh - Debian 13's engines on this machine, whatever its own are: Docker 26, containerd 1.7 and podman 5, with CDI. Sourced after
# lab.sh.
#
# Their packages are extracted once, and not installed. An engine runs in the network namespace of a lab's host and in a
# mount namespace of its own, where /usr is that of the packages, and /opt, /var/lib and /run/containerd are its own; the rest is the
# machine's. So whatever it mounts, and the names that it gives network namespaces, go with its last process.
. "$(dirname "${BASH_SOURCE[0]}")/cache.sh"

TRIXIE_PACKAGES=podman,docker.io,docker-cli,docker-compose,containerd,runc,iptables,containernetworking-plugins
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
		for folder in /opt /var/lib /run/containerd; do
			mount -t tmpfs tmpfs $folder
		done
		mount --bind -o ro "$0/usr" /usr
		exec "$@"' "$1" "${@:3}"
}

# ---- Docker ------------------------------------------------------------------------------------

# An engine in that folder, which has specifications in FOLDER/cdi; docker is its client. False where it does not start. FEATURE:
# one more of dockerd's features.
trixie_docker_start() { # ROOT HOST FOLDER [FEATURE]
	DOCKER_FOLDER=$3
	local more=
	[[ -z ${4-} ]] || more=", \"$4\": true"
	mkdir -p "$3/cdi"
	cat >"$3/daemon.json" <<-JSON
		{"features": {"cdi": true$more}, "cdi-spec-dirs": ["$3/cdi"]}
	JSON
	trixie_become "$1" "$2" dockerd --config-file "$3/daemon.json" -H "unix://$3/docker.sock" --data-root "$3/data" \
		--exec-root "$3/exec" --pidfile "$3/pid" </dev/null >"$3/log" 2>&1 &
	DOCKER_PID=$!
	docker=(nsenter --target "$DOCKER_PID" --mount docker -H "unix://$3/docker.sock")
	wait_for 60 trixie_docker_up && running "$DOCKER_PID"
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
	wait_for 60 ended "$DOCKER_PID" || kill -KILL "$DOCKER_PID" 2>/dev/null
	for id in "$DOCKER_FOLDER"/data/containers/*; do
		for group in /sys/fs/cgroup/{pids/,}docker/"${id##*/}"; do
			[[ ! -e $group/cgroup.procs ]] || xargs -r kill -KILL <"$group/cgroup.procs" 2>/dev/null
		done
	done
	DOCKER_PID=
}

# ---- containerd, as a node of Kubernetes has it ------------------------------------------------

# With the CRI, and CDI's specifications in FOLDER/cdi; pods are on a bridge, in SUBNET. ctr is its client. False where it does not start.
trixie_containerd_start() { # ROOT HOST FOLDER SUBNET
	mkdir -p "$3/cdi" "$3/cni"
	cat >"$3/cni/10-bridge.conf" <<-JSON
		{"cniVersion": "1.0.0", "name": "pods", "type": "bridge", "bridge": "cni0", "isGateway": true,
		 "ipam": {"type": "host-local", "ranges": [[{"subnet": "$4"}]], "dataDir": "$3/addresses"}}
	JSON
	# A container may not be given more than the machine's root has: so no oom_score_adj below 0.
	cat >"$3/config.toml" <<-TOML
		version = 2
		root = "$3/root"
		state = "$3/state"
		[grpc]
		  address = "$3/containerd.sock"
		[plugins."io.containerd.grpc.v1.cri"]
		  sandbox_image = "$(pause_image)"
		  enable_cdi = true
		  cdi_spec_dirs = ["$3/cdi"]
		  restrict_oom_score_adj = true
		  netns_mounts_under_state_dir = true
		  [plugins."io.containerd.grpc.v1.cri".cni]
		    bin_dir = "/usr/lib/cni"
		    conf_dir = "$3/cni"
		  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
		    runtime_type = "io.containerd.runc.v2"
		    pod_annotations = ["freeflow.io/*"]
	TOML
	trixie_become "$1" "$2" containerd --config "$3/config.toml" </dev/null >"$3/log" 2>&1 &
	CONTAINERD_PID=$!
	ctr=(nsenter --target "$CONTAINERD_PID" --mount ctr --address "$3/containerd.sock" --namespace k8s.io)
	wait_for 60 trixie_containerd_up && running "$CONTAINERD_PID"
}

trixie_containerd_up() {
	ended "$CONTAINERD_PID" || "${ctr[@]}" version >/dev/null 2>&1
}

pause_image() {
	echo freeflow.test/pause:1
}

# An image of one layer, from a tar file, which containerd has by that name then.
trixie_image() { # TAR NAME FOLDER
	local layer
	mkdir -p "$3"
	layer=$(sha256sum <"$1" | cut -d ' ' -f 1)
	printf '{"architecture": "%s", "os": "linux", "config": {"Cmd": ["/bin/busybox", "sleep", "100000"]},
		"rootfs": {"type": "layers", "diff_ids": ["sha256:%s"]}}' \
		"$(dpkg --print-architecture)" "$layer" >"$3/config.json"
	printf '[{"Config": "config.json", "RepoTags": ["%s"], "Layers": ["layer.tar"]}]' "$2" >"$3/manifest.json"
	ln -sf "$1" "$3/layer.tar"
	tar -C "$3" -h -c manifest.json config.json layer.tar | "${ctr[@]}" images import - >"$3/log" 2>&1 && rm "$3/layer.tar"
}
