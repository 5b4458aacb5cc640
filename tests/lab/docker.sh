# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# docker.sh - the lab's Docker engine: the machine's own if one answers and one host is enough, else a
# private one for each host below $FF_LAB/HOST. Containers get what `ffctl container add --docker`
# prints, a network and a name, nothing else: no privilege, device, capability or limit. Sourced by lab.

# The client for a host's engine, and the words that start it.
dk() { # HOST ARGS...
	docker_client "$1"
	shift
	"${DOCKER[@]}" "$@"
}

docker_client() { # HOST
	DOCKER=(docker)
	[[ ! -e $FF_LAB/$1/docker.private ]] || DOCKER+=(-H "unix://$FF_LAB/$1/docker.sock")
}

# A private engine needs its own network namespace; nsenter and not ip-netns-exec, which would
# mount /sys again and hide the control groups.
docker_engine_start() {
	local host=$1 dir=$FF_LAB/$1

	touch "$dir/docker.private"
	mkdir -p "$dir/docker"
	cat >"$dir/docker.json" <<-JSON
	{"runtimes": {"freeflow": {"path": "$BUILD/bin/freeflow-runc",
	 "runtimeArgs": ["--freeflow-admin=$dir/admin.sock", "--freeflow-socket-dir=$dir/run", "--freeflow-lib=$BUILD/lib"]}}}
	JSON
	setsid nsenter --net="/run/netns/$LAB_ID-$host" dockerd --config-file "$dir/docker.json" -H "unix://$dir/docker.sock" \
		--data-root "$dir/docker/data" --exec-root "$dir/docker/exec" \
		--pidfile "$dir/docker/pid" </dev/null >"$dir/docker.log" 2>&1 &
	echo $! >"$dir/docker/launched"
	try_for 30 docker_engine_answers "$host" ||
		die "dockerd of $host does not start; its log ends: $(tail -n 5 "$dir/docker.log")"
}

docker_engine_answers() {
	gone "$(<"$FF_LAB/$1/docker/launched")" || dk "$1" version >/dev/null 2>&1
}

docker_engine_stop() {
	local pid host=$1

	[[ -e $FF_LAB/$host/docker.private ]] || return 0
	pid=$(lab_get "$host/docker/pid" || lab_get "$host/docker/launched") || pid=
	if alive "$pid" && [[ $(readlink "/proc/$pid/exe") == */dockerd* ]]; then
		kill "$pid" 2>/dev/null || true
		try_for 20 gone "$pid" || kill -KILL "$pid" 2>/dev/null || true
	fi
}

# What an engine that was killed leaves mounted below $FF_LAB.
docker_unmount() {
	local m

	while read -r m; do
		umount -l "$m" 2>/dev/null || true
	done < <(awk -v p="$FF_LAB/" 'index($5, p) == 1 { print $5 }' /proc/self/mountinfo |
		sort -r)
}

docker_host_up() {
	local image tar options=()
	if has_fabric || ! docker info >/dev/null 2>&1; then
		docker_engine_start "$1"
	fi
	for image in $(lab_get images); do
		tar=$(image_tar "$image")
		dk "$1" import "$tar" "$LAB_ID:${image//+/-}" >/dev/null || die "docker import $image failed"
	done
	# With masquerading a container would be its host for the others' routers and for ffo.
	! has_fabric || options=(--opt com.docker.network.bridge.name=br0
		--opt com.docker.network.bridge.enable_ip_masquerade=false)
	dk "$1" network create --subnet "$(lab_net).0/24" --gateway "$(gateway_ip "$1")" "${options[@]}" \
		"$LAB_ID" >/dev/null || die "docker network create failed"
	! has_fabric || fabric_join_bridge "$1" br0
}

docker_container_up() {
	local host image name=$LAB_ID-$1 ip c hosts=()
	mapfile -t flags <"$FF_LAB/$1/flags"
	# a sanitized library needs its run-time first
	[[ ! -e $BUILD/lib/libasan.so.8 ]] || flags+=(--env LD_PRELOAD=/usr/lib/freeflow/libasan.so.8)

	host=$(container_host "$1")
	image=$(container_image "$1")
	while read -r ip c; do
		hosts+=(--add-host "$c:$ip")
	done < <(hosts_list)
	dk "$host" run -d --name "$name" --hostname "$(identity "$1")" --label "freeflow.lab=$LAB_ID" \
		--network "$LAB_ID" --ip "$(container_ip "$1")" "${hosts[@]}" \
		-v "$TREE/build:$TREE/build:ro" "${flags[@]}" \
		"$LAB_ID:${image//+/-}" /bin/sh -c 'while :; do sleep infinity; done' >/dev/null ||
		die "docker run of $1 failed"
	docker_container_pid "$1" "$host"
}

docker_container_pid() { # CONTAINER HOST
	dk "$2" inspect -f '{{.State.Pid}}' "$LAB_ID-$1" >"$FF_LAB/$1/pid"
}

# Its shell as process 1 does not listen to SIGTERM.
docker_container_stop() {
	dk "$(container_host "$1")" stop -t 0 "$LAB_ID-$1" >/dev/null || die "docker stop of $1 failed"
}

# On a host where it was before, it is still there, stopped.
docker_container_start() {
	local host
	host=$(container_host "$1")
	if dk "$host" inspect "$LAB_ID-$1" >/dev/null 2>&1; then
		dk "$host" start "$LAB_ID-$1" >/dev/null || die "docker start of $1 failed"
		docker_container_pid "$1" "$host"
	else
		router_container_flags "$1" >"$FF_LAB/$1/flags"
		docker_container_up "$1"
	fi
}

# Images are given to containers in turn: --image debian12,debian11 makes h0c1 a Debian 11.
container_image() {
	local images c
	read -r -a images <<<"$(lab_get images)"
	c=$(identity "${1#*c}")
	echo "${images[$((c % ${#images[@]}))]}"
}

# `docker exec` passes no signals on, so the program writes its PID down and a trap sends them; the
# client has a session of its own, or it would die of a signal to the process group meanwhile.
docker_exec() {
	local host name=$LAB_ID-$1 tag=/tmp/.lab-exec.$$ child status
	host=$(container_host "$1")
	docker_client "$host"
	shift
	# shellcheck disable=SC2016
	setsid "${DOCKER[@]}" exec -i "$name" /bin/sh -c 'echo $$ >"$0" && exec "$@"' "$tag" "$@" <&0 &
	child=$!
	local s
	for s in TERM INT HUP QUIT USR1 USR2; do
		# shellcheck disable=SC2064
		trap "docker_signal $host $name $tag $s" "$s"
	done
	while :; do
		wait "$child"
		status=$?
		alive "$child" || break
	done
	# A signal ends `wait` with a status of its own, and the program may have ended by then.
	if ((status > 128)); then
		wait "$child" 2>/dev/null
		s=$?
		((s == 127)) || status=$s
	fi
	trap - TERM INT HUP QUIT USR1 USR2
	exit "$status"
}

docker_signal() {
	# shellcheck disable=SC2016
	dk "$1" exec "$2" /bin/sh -c 'read -r p <"$0" && kill "-$1" "$p"' "$3" "$4" 2>/dev/null
}

# Its first process, without which the others go: the engine may not be there to do that.
docker_container_down() {
	local pid
	pid=$(lab_get "$1/pid") || return 0
	if alive "$pid" && [[ $(tr '\0' ' ' <"/proc/$pid/cmdline") == *"sleep infinity; done"* ]]; then
		kill -KILL "$pid" 2>/dev/null || true
	fi
}

docker_host_down() {
	local ids host=$1

	if [[ -e $FF_LAB/$host/docker.private ]]; then
		dk "$host" version >/dev/null 2>&1 || return 0
	elif ! docker info >/dev/null 2>&1; then
		return 0
	fi
	ids=$(dk "$host" ps -aq --filter "label=freeflow.lab=$LAB_ID")
	# shellcheck disable=SC2086
	[[ -z $ids ]] || dk "$host" rm -f $ids >/dev/null || true
	[[ -e $FF_LAB/$host/docker.private ]] && return 0
	dk "$host" network rm "$LAB_ID" >/dev/null 2>&1 || true
	ids=$(dk "$host" images -q "$LAB_ID")
	# shellcheck disable=SC2086
	[[ -z $ids ]] || dk "$host" rmi -f $ids >/dev/null || true
}
