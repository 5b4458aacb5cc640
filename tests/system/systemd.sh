#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# all: netns system-san
# timeout: 300
# systemd.sh - what a service manager sees: units that it understands, a socket that it passes,
# and the word that the router and the orchestrator are ready.
. "$(dirname "$0")/../rig/shell/lab.sh"

daemon=
trap '[[ -z $daemon ]] || kill -KILL $daemon 2>/dev/null; end_test' EXIT

step "the units"
if command -v systemd-analyze >/dev/null; then
	mkdir "$OUT/units"
	for unit in "$TREE"/deploy/systemd/*; do
		sed -E "s,=/usr/(s?bin|libexec/freeflow)/,=$BUILD/bin/," "$unit" >"$OUT/units/${unit##*/}"
	done
	# Only what it says about our files; manual pages are not installed here.
	systemd-analyze verify --man=no "$OUT"/units/* 2>&1 | grep -F "$OUT/units" >"$OUT/verify"
	[[ ! -s $OUT/verify ]] || fail "systemd-analyze verify: $(cat "$OUT/verify")"
	for limit in ffr.service:40 ffo.service:25 ffr-cdi.service:25 ffr-addresses.service:25; do
		systemd-analyze security --no-pager --offline=true --threshold="${limit#*:}" \
			"$OUT/units/${limit%:*}" >"$OUT/security" 2>&1 ||
			fail "${limit%:*} is more exposed than ${limit#*:}: $(tail -n 2 "$OUT/security")"
		tail -n 1 "$OUT/security"
	done
else
	echo "   no systemd-analyze here"
fi

cat >"$OUT/ffr.conf" <<-CONF
runtime_dir = "$OUT/run"
admin_socket = "$OUT/none/admin.sock"
CONF

# Waits for one datagram on a Unix socket and prints it.
notified() { # SOCKET
	python3 -c '
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1])
s.settimeout(20)
print(s.recv(256).decode(), flush=True)' "$1"
}

# As systemd starts a service with an AF_UNIX socket of that type, which exists before and after it.
activated() { # SOCKET NAME TYPE CMD...
	exec python3 -c '
import os, socket, sys
path, name, kind = sys.argv[1:4]
s = socket.socket(socket.AF_UNIX, getattr(socket, kind))
s.bind(path)
if kind == "SOCK_STREAM":
    s.listen(16)
s.fileno() == 3 or os.dup2(s.fileno(), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1", LISTEN_FDNAMES=name)
os.execv(sys.argv[4], sys.argv[4:])' "$@"
}

answers() { # SOCKET
	"$BUILD/bin/ffctl" --admin "$1" ping >/dev/null 2>&1
}

start_notified() { # CMD...
	notified "$OUT/notify" >"$OUT/told" &
	wait_for 60 test -S "$OUT/notify" || fail "nobody listens"
	NOTIFY_SOCKET=$OUT/notify "$@" >"$OUT/log" 2>&1 </dev/null &
	daemon=$!
	wait_for 60 grep -qs '^READY=1$' "$OUT/told" || fail "not ready: $(cat "$OUT/log")"
	rm "$OUT/notify"
}

# As systemd does: each of its processes is told; and here more than once, whatever it is at by then.
stop_daemon() {
	local all i
	all="$daemon $(cat /proc/$daemon/task/*/children)"
	for ((i = 0; i < 100; i++)); do
		# shellcheck disable=SC2086 # a list
		kill $all 2>/dev/null
		sleep 0.001
	done
	wait $daemon || fail "it ended with $?: $(cat "$OUT/log")"
	daemon=
}

step "ready only when administrators can come; the socket is the manager's"
start_notified activated "$OUT/admin.sock" admin SOCK_STREAM "$BUILD/bin/ffr" --config "$OUT/ffr.conf"
answers "$OUT/admin.sock" || fail "no answer: $(cat "$OUT/log")"
[[ ! -e $OUT/none ]] || fail "the router made a socket of its own"
! grep 'may not call' "$OUT/log" || fail "the sandbox refused a call"
stop_daemon
[[ -S $OUT/admin.sock ]] || fail "the router removed the manager's socket"
rm "$OUT/admin.sock"

step "a socket of another name is not ffctl's"
sed -i "s|none/admin|admin|" "$OUT/ffr.conf"
start_notified activated "$OUT/other.sock" other SOCK_STREAM "$BUILD/bin/ffr" --config "$OUT/ffr.conf"
answers "$OUT/admin.sock" || fail "no answer at its own socket: $(cat "$OUT/log")"
stop_daemon
[[ ! -e $OUT/admin.sock ]] || fail "the router left its socket"

step "a socket that cannot be ffctl's"
activated "$OUT/dgram.sock" admin SOCK_DGRAM "$BUILD/bin/ffr" --config "$OUT/ffr.conf" \
	>"$OUT/log" 2>&1 </dev/null &
daemon=$!
wait_for 60 grep -qs 'Invalid argument' "$OUT/log" || fail "not refused: $(cat "$OUT/log")"
kill -KILL $daemon
wait $daemon
daemon=

if command -v systemd-socket-activate >/dev/null; then
	step "systemd-socket-activate"
	systemd-socket-activate --listen="$OUT/sd.sock" --fdname=admin "$BUILD/bin/ffr" \
		--config "$OUT/ffr.conf" >"$OUT/log" 2>&1 </dev/null &
	daemon=$!
	wait_for 60 answers "$OUT/sd.sock" || fail "no answer: $(cat "$OUT/log")"
	stop_daemon
fi

# Datagrams of a watchdog that waits for 200 ms, in a second.
watched() { # CMD...: which is told of it
	python3 -c '
import os, socket, subprocess, sys, time
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1])
s.settimeout(20)
p = subprocess.Popen(["sh", "-c", "WATCHDOG_PID=$$ exec \"$@\"", "-"] + sys.argv[2:],
                     env=dict(os.environ, WATCHDOG_USEC="200000", NOTIFY_SOCKET=sys.argv[1]))
while s.recv(256) != b"READY=1":
    pass
n = 0
end = time.monotonic() + 1
while time.monotonic() < end:
    n += s.recv(256) == b"WATCHDOG=1"
p.terminate()
print(n, flush=True)
sys.exit(p.wait())' "$OUT/notify" "$@" 2>"$OUT/log"
	rm -f "$OUT/notify"
}

step "the watchdog hears of the router's loop, though it knows the parent, and of the orchestrator's"
count=$(watched "$BUILD/bin/ffr" --config "$OUT/ffr.conf")
((count >= 5)) || fail "the router: $count times: $(cat "$OUT/log")"
count=$(watched "$BUILD/bin/ffo" --store "$OUT/ffo.db" --listen "unix:$OUT/ffo.sock")
((count >= 5)) || fail "the orchestrator: $count times: $(cat "$OUT/log")"

step "the orchestrator"
start_notified "$BUILD/bin/ffo" --store "$OUT/ffo.db" --listen "unix:$OUT/ffo.sock"
stop_daemon
exit 0
