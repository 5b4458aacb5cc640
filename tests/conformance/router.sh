# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# router.sh - sourced by checks that ask a router of their own what it tells: router_start, ctl, router_metrics, ROUTER_ASKS.

# What ffctl --json is asked for, of a router with the container a.
# shellcheck disable=SC2034
ROUTER_ASKS=("container list" "container list --all" "container show a" "stats a --latency --qps" "stats a --mrs" "top --once"
	"events" "host list" "policy list" "tenant list" "doctor" "ping")

ctl() {
	"$BUILD/bin/ffctl" --admin "$ROUTER_DIR/admin.sock" "$@"
}

# Starts one, as ROUTER, with its files in FOLDER, and waits until it answers.
router_start() { # FOLDER [STORE]
	local i
	ROUTER_DIR=$1
	printf '%s\n' 'hostname = "h0"' "runtime_dir = \"$1/run\"" "admin_socket = \"$1/admin.sock\"" "store = \"${2-:memory:}\"" 'sandbox = "off"' \
		"metrics = \"unix:$1/metrics.sock\"" >"$1/ffr.conf"
	"$BUILD/bin/ffr" --config "$1/ffr.conf" >"$1/log" 2>&1 &
	ROUTER=$!
	for ((i = 0; i < 200; i++)); do
		! ctl ping >/dev/null 2>&1 || return 0
		kill -0 $ROUTER 2>/dev/null || return 1
		sleep 0.05
	done
	return 1
}

router_stop() {
	kill "$ROUTER"
	wait "$ROUTER"
}

# Prints what Prometheus reads.
router_metrics() {
	printf 'GET /metrics HTTP/1.0\r\n\r\n' | python3 -c 'import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(sys.stdin.buffer.read())
sys.stdout.buffer.write(b"".join(iter(lambda: s.recv(65536), b"")))' "$ROUTER_DIR/metrics.sock"
}
