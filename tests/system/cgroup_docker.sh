#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# all: docker
# timeout: 300
# cgroup_docker.sh - containers of Docker whose cgroups the router knows, as docs/operate/limits-and-tenants.md tells it: by a
# process, by the engine's names, by --cgroup-parent. tests/hostile/cgroup.sh has the attacks.
. "$(dirname "$0")/../rig/shell/lab.sh"

# The engine leaves parents that it has made.
parents_end() {
	rmdir /sys/fs/cgroup/{,*/}freeflow-tes[tx]-$$ 2>/dev/null
}
trap 'end_test; parents_end' EXIT

own_lab --containers 1
docker=(docker)
[[ ! -e $FF_LAB/h0/docker.private ]] || docker+=(-H "unix://$FF_LAB/h0/docker.sock")
id=$("${docker[@]}" ps -q --no-trunc --filter "volume=$FF_LAB/h0/run/containers/h0c0")
[[ $id ]] || fail "no container has the folder of h0c0"
image=$("${docker[@]}" inspect -f '{{.Config.Image}}' "$id")
driver=$("${docker[@]}" info -f '{{.CgroupDriver}}')
parent=/freeflow-test-$$ flag=$parent
[[ $driver != systemd ]] || parent=/freeflow.slice/freeflow-test.slice flag=freeflow-test.slice
mapfile -t flags <"$FF_LAB/h0c0/flags"

serves() { # CMD...: which runs a program, and that one has the device
	local out
	out=$("$@" 2>&1) || fail "$*: $out"
	[[ $out == *ff0* ]] || fail "$*: $out"
}

refuses() { # CMD...: ... and that one is told why not
	local out
	out=$("$@" 2>&1)
	[[ $out == *"no device: "*"not in the cgroup"* ]] || fail "$*: $out"
}

device() { # FLAG...: in a container of its own
	"${docker[@]}" run --rm --label "freeflow.lab=$(basename "$OWN_LAB")" -v "$TREE/build:$TREE/build:ro" \
		"$@" "$image" ibv_devices
}

from_host() {
	FFL_SOCKET=$FF_LAB/h0/run/containers/$1/ffr.sock LD_LIBRARY_PATH=$BUILD/lib ibv_devices
}

step "without it, who reaches the socket is the container"
serves from_host h0c0
serves device "${flags[@]}"

step "by a process of it"
router_ctl container set h0c0 --pid "$("${docker[@]}" inspect -f '{{.State.Pid}}' "$id")" || fail "--pid"
shown=$(router_ctl container show h0c0 | awk '$1 == "cgroup" { print $2 }')
case $driver in
systemd) [[ $shown == /system.slice/docker-$id.scope ]] || fail "cgroup: $shown" ;;
*) [[ $shown == /docker/$id ]] || fail "cgroup: $shown" ;;
esac
serves inside h0c0 ibv_devices
refuses from_host h0c0
refuses device "${flags[@]}"

step "restarted, it has the same"
"${docker[@]}" restart -t 0 "$id" >/dev/null || fail "docker restart"
serves "${docker[@]}" exec "$id" ibv_devices
refuses from_host h0c0

step "a parent that is known before there is a container"
mapfile -t web < <(router_ctl container add web --cgroup "$parent" --docker | tr ' ' '\n')
((${#web[@]})) || fail "container add"
refuses device "${web[@]}"
refuses device --cgroup-parent "${flag/test/tesx}" "${web[@]}"
refuses from_host web
serves device --cgroup-parent "$flag" "${web[@]}"
router_ctl container rm web || fail "container rm"
exit 0
