# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# router.sh - the router of a lab's host: configuration, start, stop, and ffctl. Sourced by lab.

# Sanitizers report into files; a leak of the router counts, so it must be able to end by itself.
ROUTER_ENV=()

router_config() {
	local host=$1 dir=$FF_LAB/$1

	mkdir -p "$dir/run"
	cat >"$dir/ffr.conf" <<-CONF
	runtime_dir = "$dir/run"
	admin_socket = "$dir/admin.sock"
	hostname = "$host"
	store = "$dir/ffo.db"
	pools = { "$(lab_net).0/24" }
	mode = "$(lab_get mode)"
	orchestrator = "embedded"
	CONF
}

router_start() {
	local host=$1 dir=$FF_LAB/$1

	ROUTER_ENV=(
		"ASAN_OPTIONS=log_path=$dir/san:detect_leaks=1:abort_on_error=0:exitcode=99"
		"UBSAN_OPTIONS=log_path=$dir/san:print_stacktrace=1"
		"LSAN_OPTIONS=print_suppressions=0"
	)
	rm -f "$dir/admin.sock"
	setsid nsenter --net="/run/netns/$LAB_ID-$host" env "${ROUTER_ENV[@]}" \
		"$BUILD/bin/ffr" --config "$dir/ffr.conf" </dev/null >>"$dir/ffr.log" 2>&1 &
	echo $! >"$dir/ffr.pid"
	try_for 10 router_answers "$host" ||
		die "the router of $host does not answer; its log ends: $(tail -n 5 "$dir/ffr.log")"
}

router_answers() {
	[[ -S $FF_LAB/$1/admin.sock ]] && ffctl "$1" ping >/dev/null 2>&1
}

router_pid() {
	lab_get "$1/ffr.pid"
}

# SIGNAL, then wait for the end. TERM lets a sanitized router report its leaks.
router_stop() {
	local host=$1 signal=$2 pid

	pid=$(router_pid "$host") || return 0
	if alive "$pid" && [[ $(readlink "/proc/$pid/exe") == */ffr* ]]; then
		kill "-$signal" "$pid" 2>/dev/null || true
		if ! try_for 10 gone "$pid"; then
			say "the router of $host does not end on SIG$signal: killed"
			kill -KILL "$pid" 2>/dev/null || true
			try_for 5 gone "$pid" || true
		fi
	fi
	rm -f "$FF_LAB/$host/ffr.pid"
}

ffctl() {
	local host=$1
	shift
	"$BUILD/bin/ffctl" --admin "$FF_LAB/$host/admin.sock" "$@"
}

# Prints the flags for docker run, one a line.
router_container_add() {
	local out

	out=$(ffctl "${1%c*}" container add "$1" --ip "$(container_ip "$1")" \
		--mode "$(lab_get mode)" --docker) || die "ffctl container add $1 failed"
	xargs -n 1 <<<"$out"
}

# Containers that the router does not know again after a restart.
router_containers_again() {
	local host=$1 c

	for c in $(containers); do
		[[ ${c%c*} == "$host" ]] || continue
		ffctl "$host" container show "$c" >/dev/null 2>&1 ||
			router_container_add "$c" >/dev/null
	done
}
