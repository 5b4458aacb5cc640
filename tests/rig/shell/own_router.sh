# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# own_router.sh - a router of the test's own, without a lab: its files are in $D. Sourced after lab.sh.

D=$OUT/router
mkdir "$D"

# ffctl, for that router.
ctl() {
	timeout 30 "$BUILD/bin/ffctl" --timeout 20 --admin "$D/admin.sock" "$@"
}

answers() {
	ctl ping >/dev/null 2>&1
}

# start [LINE...]: the router; it is $PARENT. $D/ffr.conf has these lines, or else what the test wrote into it.
start() {
	(($# == 0)) || printf '%s\n' "$@" 'hostname = "hx"' >"$D/ffr.conf"
	"$BUILD/bin/ffr" --config "$D/ffr.conf" --socket-dir "$D/run" --admin "$D/admin.sock" 2>"$D/log" &
	PARENT=$!
	wait_for 30 answers || fail "no answer: $(cat "$D/log")"
}

stop() {
	kill "$PARENT"
	wait "$PARENT" || fail "it ended with $?: $(cat "$D/log")"
}
