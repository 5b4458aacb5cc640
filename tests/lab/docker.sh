# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# docker.sh - the lab's Docker engine: the machine's own if one answers, else a private one below
# $FF_LAB. Containers get what `ffctl container add --docker` prints, a network and a name, nothing
# else: no privilege, device, capability or limit. Sourced by lab.

# The client for the engine that this lab uses, and the words that start it.
dk() {
	"${DOCKER[@]}" "$@"
}

docker_client() {
	DOCKER=(docker)
	[[ ! -e $FF_LAB/docker.private ]] || DOCKER+=(-H "unix://$FF_LAB/docker.sock")
}

# A private engine needs its own network namespace; nsenter and not ip-netns-exec, which would
# mount /sys again and hide the control groups.
docker_engine_start() {
	local ns=$LAB_ID-$1

	touch "$FF_LAB/docker.private"
	docker_client
	mkdir -p "$FF_LAB/docker"
	setsid nsenter --net="/run/netns/$ns" dockerd -H "unix://$FF_LAB/docker.sock" \
		--data-root "$FF_LAB/docker/data" --exec-root "$FF_LAB/docker/exec" \
		--pidfile "$FF_LAB/docker/pid" </dev/null >"$FF_LAB/docker.log" 2>&1 &
	echo $! >"$FF_LAB/docker/launched"
	try_for 30 docker_engine_answers ||
		die "dockerd does not start; its log ends: $(tail -n 5 "$FF_LAB/docker.log")"
}

docker_engine_answers() {
	gone "$(<"$FF_LAB/docker/launched")" || dk version >/dev/null 2>&1
}

docker_engine_stop() {
	local pid

	[[ -e $FF_LAB/docker.private ]] || return 0
	pid=$(lab_get docker/pid || lab_get docker/launched) || pid=
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
	docker info >/dev/null 2>&1 || docker_engine_start "$1"
	local image tar
	for image in $(lab_get images); do
		tar=$(image_tar "$image")
		dk import "$tar" "$LAB_ID:${image//+/-}" >/dev/null || die "docker import $image failed"
	done
	dk network create --subnet "$(lab_net).0/24" --gateway "$(lab_net).1" "$LAB_ID" >/dev/null ||
		die "docker network create failed"
}

docker_container_up() {
	local image name=$LAB_ID-$1 c hosts=()
	mapfile -t flags <"$FF_LAB/$1/flags"

	image=$(container_image "$1")
	for c in $(containers); do
		hosts+=(--add-host "$c:$(container_ip "$c")")
	done
	dk run -d --name "$name" --hostname "$1" --label "freeflow.lab=$LAB_ID" \
		--network "$LAB_ID" --ip "$(container_ip "$1")" "${hosts[@]}" \
		-v "$TREE/build:$TREE/build:ro" "${flags[@]}" \
		"$LAB_ID:${image//+/-}" /bin/sh -c 'while :; do sleep infinity; done' >/dev/null ||
		die "docker run of $1 failed"
	dk inspect -f '{{.State.Pid}}' "$name" >"$FF_LAB/$1/pid"
}

# Images are given to containers in turn: --image debian12,debian11 makes h0c1 a Debian 11.
container_image() {
	local images
	read -r -a images <<<"$(lab_get images)"
	echo "${images[$((${1#*c} % ${#images[@]}))]}"
}

# `docker exec` passes no signals on, so the program writes its PID down and a trap sends them; the
# client has a session of its own, or it would die of a signal to the process group meanwhile.
docker_exec() {
	local name=$LAB_ID-$1 tag=/tmp/.lab-exec.$$ child status
	shift
	# shellcheck disable=SC2016
	setsid "${DOCKER[@]}" exec -i "$name" /bin/sh -c 'echo $$ >"$0" && exec "$@"' "$tag" "$@" <&0 &
	child=$!
	local s
	for s in TERM INT HUP QUIT USR1 USR2; do
		# shellcheck disable=SC2064
		trap "docker_signal $name $tag $s" "$s"
	done
	while :; do
		wait "$child"
		status=$?
		alive "$child" || break
	done
	trap - TERM INT HUP QUIT USR1 USR2
	exit "$status"
}

docker_signal() {
	# shellcheck disable=SC2016
	dk exec "$1" /bin/sh -c 'read -r p <"$0" && kill "-$1" "$p"' "$2" "$3" 2>/dev/null
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
	local ids

	if [[ -e $FF_LAB/docker.private ]]; then
		dk version >/dev/null 2>&1 || return 0
	elif ! docker info >/dev/null 2>&1; then
		return 0
	fi
	ids=$(dk ps -aq --filter "label=freeflow.lab=$LAB_ID")
	# shellcheck disable=SC2086
	[[ -z $ids ]] || dk rm -f $ids >/dev/null || true
	[[ -e $FF_LAB/docker.private ]] && return 0
	dk network rm "$LAB_ID" >/dev/null 2>&1 || true
	ids=$(dk images -q "$LAB_ID")
	# shellcheck disable=SC2086
	[[ -z $ids ]] || dk rmi -f $ids >/dev/null || true
}
