# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# router.sh - the router of a lab's host: configuration, start, stop, and ffctl. Sourced by lab.

WIRE_PORT=7471
# Whom routers become: nobody's number on any machine.
ROUTER_USER=60999:60999

router_config() {
	local host=$1 dir=$FF_LAB/$1

	mkdir -p "$dir/run"
	cat >"$dir/ffr.conf" <<-CONF
	runtime_dir = "$dir/run"
	admin_socket = "$dir/admin.sock"
	user = "$ROUTER_USER"
	hostname = "$host"
	store = "$dir/ffo.db"
	pools = { "$(lab_net).0/24" }
	mode = "$(lab_get mode)"
	orchestrator = "$(orch_address)"
	metrics = "unix:$dir/metrics.sock"
	CONF
	if [[ $(lab_get backend) == verbs ]]; then
		cat >>"$dir/ffr.conf" <<-CONF
		nic = { "${FF_NIC// /\", \"}" }
		nic_direct = true
		CONF
	fi
	has_fabric || return 0
	if [[ $(lab_get backend) == rio ]]; then
		echo "rio_port = ${host#h}" >>"$dir/ffr.conf"
	fi
	cat >>"$dir/ffr.conf" <<-CONF
	cluster = "$LAB_ID"
	wire_listen = "tcp:$(fabric_ip "$host"):$WIRE_PORT"
	CONF
	if ! has_tls; then
		echo "wire_tls = false" >>"$dir/ffr.conf"
		return
	fi
	tls_certify "$host"
	cat >>"$dir/ffr.conf" <<-CONF
	wire_cert = "$dir/host.pem"
	wire_key = "$dir/host.key"
	wire_ca = "$FF_LAB/tls/ca.pem"
	wire_crl = "$FF_LAB/tls/crl.pem"
	CONF
}

router_start() {
	local host=$1 dir=$FF_LAB/$1 env

	mapfile -t env < <(sanitizer_env "$dir")
	rm -f "$dir/admin.sock" "$dir/router.pid"
	router_gives "$host"
	setsid nsenter --net="/run/netns/$LAB_ID-$host" env "${env[@]}" \
		"$BUILD/bin/ffr" --config "$dir/ffr.conf" </dev/null >>"$dir/ffr.log" 2>&1 &
	echo $! >"$dir/ffr.pid"
	try_for 10 router_answers "$host" ||
		die "the router of $host does not answer; its log ends: $(tail -n 5 "$dir/ffr.log")"
	router_find "$host"
}

as_router() { # CMD...
	setpriv --reuid "${ROUTER_USER%:*}" --regid "${ROUTER_USER#*:}" --clear-groups "$@"
}

# What the router's user must reach by its path: its host's folder, and keys and lists in it.
router_gives() {
	local dir=$FF_LAB/$1

	chmod o+x "$FF_LAB" "$dir"
	if ! as_router test -x "$dir"; then # it lies in a folder that is somebody's alone
		say "routers stay root: nobody else reaches $FF_LAB"
		sed -i '/^user = /d' "$dir/ffr.conf"
		return
	fi
	chown "$ROUTER_USER" "$dir"
	! has_tls || chown "$ROUTER_USER" "$dir"/host.{pem,key}
	[[ ! -e $FF_LAB/zk.auth ]] || chown "$ROUTER_USER" "$FF_LAB/zk.auth"
}

# Of the processes of a router (ffr(8), SECURITY): ffr.pid has the first one, which signals are for, and
# router.pid the one that works.
router_find() {
	local dir=$FF_LAB/$1 first

	first=$(<"$dir/ffr.pid")
	pgrep -P "$first" -x ffr >"$dir/router.pid" || echo "$first" >"$dir/router.pid"
}

router_answers() {
	[[ -S $FF_LAB/$1/admin.sock ]] && ffctl "$1" ping >/dev/null 2>&1
}

router_pid() {
	lab_get "$1/ffr.pid"
}

router_stop() { # HOST SIGNAL
	local pid

	pid=$(router_pid "$1") || return 0
	if alive "$pid" && [[ $(readlink "/proc/$pid/exe") == */ffr* ]]; then
		pgrep -P "$pid" -x ffr-orphans >>"$FF_LAB/$1/orphans.pid" || true
		stop_process "the router of $1" "$pid" "$2"
	fi
	rm -f "$FF_LAB/$1/ffr.pid" "$FF_LAB/$1/router.pid"
}

# Processes that watch what routers have left end when the programs have, within a second or two.
router_orphans_end() { # HOST
	local pid

	[[ -e $FF_LAB/$1/orphans.pid ]] || return 0
	while read -r pid; do
		try_for 20 gone "$pid" && continue
		say "what a router of $1 left to watch, process $pid, does not end: killed"
		: >"$FF_LAB/hung"
		kill -KILL "$pid"
	done <"$FF_LAB/$1/orphans.pid"
}

ffctl() {
	local host=$1
	shift
	"$BUILD/bin/ffctl" --admin "$FF_LAB/$host/admin.sock" --socket-dir "$FF_LAB/$host/run" "$@"
}

# Prints the flags for docker run, one a line.
router_container_add() {
	local out

	out=$(ffctl "$(container_host "$1")" container add "$1" --ip "$(container_ip "$1")" \
		--mode "$(lab_get mode)" --docker) || die "ffctl container add $1 failed"
	xargs -n 1 <<<"$out"
}

# The same of a container that the router knows.
router_container_flags() {
	local out

	out=$(ffctl "$(container_host "$1")" container show "$(identity "$1")" --docker) ||
		die "ffctl container show $1 failed"
	xargs -n 1 <<<"$out"
}

router_knows() { # HOST CONTAINER
	ffctl "$1" container show "$2" >/dev/null 2>&1
}

# After a restart: an orchestrator that others share tells the router of its containers as soon as it
# can be asked, the embedded one may have forgotten them.
router_containers_again() {
	local host=$1 c

	for c in $(containers); do
		[[ $(container_host "$c") == "$host" ]] || continue
		! is_twin "$c" || continue
		if ! has_fabric; then
			router_knows "$host" "$c" || router_container_add "$c" >/dev/null
		elif orch_majority && [[ ! -e $FF_LAB/$host/cut ]]; then
			try_for 10 router_knows "$host" "$c" ||
				die "the router of $host does not get $c from the orchestrator"
		fi
	done
}

# The socket that a container of that name mounts, once its host's router serves it.
router_serves() { # CONTAINER HOST
	[[ -S $FF_LAB/$2/run/containers/$(identity "$1")/ffr.sock ]]
}
