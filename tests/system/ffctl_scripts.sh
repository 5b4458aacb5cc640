#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# ffctl_scripts.sh - what scripts need of ffctl: exit statuses, errors as JSON, changes that may be made twice.
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

# ends STATUS CODE WORDS ARG...: ffctl ARG... ends with that status, with and without --json. WORDS are in the one line of
# its error, and in the message of the object.
ends() {
	local status=$1 code=$2 words=$3
	shift 3
	ctl "$@" >"$OUT/out" 2>"$OUT/err"
	(($? == status)) || fail "ffctl $*: not status $status: $(cat "$OUT/err")"
	[[ $(wc -l <"$OUT/err") == 1 ]] || fail "ffctl $*: not one line: $(cat "$OUT/err")"
	grep -qF -e "$words" "$OUT/err" || fail "ffctl $*: no '$words': $(cat "$OUT/err")"
	ctl "$@" --json >"$OUT/out" 2>"$OUT/err"
	(($? == status)) || fail "ffctl $* --json: not status $status: $(cat "$OUT/err")"
	[[ ! -s $OUT/out ]] || fail "ffctl $* --json: it wrote to stdout: $(cat "$OUT/out")"
	python3 -c 'import json, sys
error = json.load(sys.stdin)["error"]
sys.exit(error["status"] != int(sys.argv[1]) or error["code"] != sys.argv[2] or sys.argv[3] not in error["message"])' \
		"$status" "$code" "$words" <"$OUT/err" 2>&1 || fail "ffctl $* --json: $(cat "$OUT/err")"
}

# prints TEXT ARG...: ffctl ARG... ends with 0, prints that and no error.
prints() {
	local text=$1 out
	shift
	out=$(ctl "$@" 2>"$OUT/err") || fail "ffctl $*: status $?: $(cat "$OUT/err")"
	[[ ! -s $OUT/err ]] || fail "ffctl $*: $(cat "$OUT/err")"
	[[ $out == "$text" ]] || fail "ffctl $* prints: $out"
}

step "errors without a router"
ends 1 failed 'is ffr running?' ping
ends 2 usage 'unknown command "frobnicate"' frobnicate
ends 2 usage 'unknown option --frobnicate' --frobnicate
ends 2 usage 'is none of adaptive' container add web --mode fast

printf '%s\n' "store = \"$D/r.db\"" 'hostname = "hx"' >"$D/ffr.conf"
"$BUILD/bin/ffr" --config "$D/ffr.conf" --socket-dir "$D/run" --admin "$D/admin.sock" 2>"$D/log" &
PARENT=$!
wait_for 30 answers || fail "no answer: $(cat "$D/log")"

step "what is not there"
ends 4 not-found 'no container "web"' container show web
ends 4 not-found 'no container "web"' container rm web
ends 4 not-found 'no host "hy"' container migrate web --to hy
ends 4 not-found 'no such rule' policy rm red blue
prints '' container rm web --ignore
ends 2 usage 'unknown option --ignore' container show web --ignore

step "what is there"
web="web 10.77.7.7 $D/run/containers/web"
prints "$web" container add web --ip 10.77.7.7 --tenant red
ends 5 exists 'already, on host hx' container add web
prints "$web" container add web --exist-ok --tenant red
prints "$web" container add web --exist-ok --tenant red --ip 10.77.7.7
ends 5 exists 'exists with tenant red' container add web --exist-ok
ends 5 exists 'exists with other addresses: 10.77.7.7' container add web --exist-ok --tenant red --ip 10.77.7.8
ends 5 exists 'exists with other addresses: 10.77.7.7' container add web --exist-ok --tenant red --ip 10.77.7.7 --ip fd77::7
prints "db 10.77.7.8 $D/run/containers/db" container add db --exist-ok --ip 10.77.7.8
ends 1 failed '10.77.7.8' container add third --exist-ok --ip 10.77.7.8
prints '' container rm web --ignore
ends 4 not-found 'no container "web"' container show web

kill $PARENT
wait $PARENT || fail "the router ended with $?: $(cat "$D/log")"
exit 0
