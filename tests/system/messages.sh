#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# messages.sh - what ffr and ffctl say of what is missing: a ZooKeeper that is not there.
# test: netns
# all: system-san
. "$(dirname "$0")/../rig/shell/lab.sh"

D=$OUT/router
mkdir "$D"

ctl() {
	timeout 30 "$BUILD/bin/ffctl" --timeout 20 --admin "$D/admin.sock" "$@"
}

answers() {
	ctl ping >/dev/null 2>&1
}

# start LINE...: a router with these lines in its ffr.conf; it is $PARENT.
start() {
	printf '%s\n' "$@" 'hostname = "hx"' >"$D/ffr.conf"
	"$BUILD/bin/ffr" --config "$D/ffr.conf" --socket-dir "$D/run" --admin "$D/admin.sock" 2>"$D/log" &
	PARENT=$!
	wait_for 30 answers || fail "no answer: $(cat "$D/log")"
}

stop() {
	kill $PARENT
	wait $PARENT || fail "it ended with $?: $(cat "$D/log")"
}

logged() {
	grep -e "$1" "$D/log" >/dev/null
}

step "no ZooKeeper"
echo digest:a:b >"$D/auth"
chmod 600 "$D/auth"
start "orchestrator = \"zookeeper:127.0.0.1:9?auth=$D/auth\""
wait_for 20 logged 'ZooKeeper at 127.0.0.1:9 is not reached' || fail "$(cat "$D/log")"
stop
! logged 'credentials: \|may not call' || fail "$(cat "$D/log")"
exit 0
